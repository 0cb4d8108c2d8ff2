package setpoint

import "context"

// Source feeds a controller with requests that do not come from the API
// server, such as the notifications of an external system. It runs from the
// start of the controller, also on a standby, until ctx ends, and returns then.
// Add never blocks. An error stops the manager.
type Source func(ctx context.Context, add func(Request)) error

// Channel returns a Source that adds what it receives from ch, until ch is
// closed.
func Channel(ch <-chan Request) Source {
	return func(ctx context.Context, add func(Request)) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case req, ok := <-ch:
				if !ok {
					return nil
				}
				add(req)
			}
		}
	}
}
