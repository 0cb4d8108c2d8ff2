package plane

import (
	"context"
	"log/slog"

	"github.com/setpoint-dev/setpoint/plane/internal/apiserver"
	"github.com/setpoint-dev/setpoint/plane/internal/pki"
	"github.com/setpoint-dev/setpoint/plane/store"
)

// unlistened is the address that discovery names when there is no listener.
const unlistened = "127.0.0.1:6443"

// start brings the parts up, in the order in which they need each other.
func (r *running) start(ctx context.Context, config Config, logger *slog.Logger) error {
	err := ctx.Err()
	if err != nil {
		return err
	}
	if r.authority, err = pki.NewAuthority("setpoint"); err != nil {
		return err
	}
	tokenKey, err := pki.NewKey()
	if err != nil {
		return err
	}
	address := unlistened
	if config.Listen != "" {
		if r.admin, err = r.authority.Client(admin.Name, admin.Groups[0]); err != nil {
			return err
		}
		if r.listener, err = listen(config.Listen, r.authority); err != nil {
			return err
		}
		address = r.listener.address()
	}
	r.store = store.New(store.Config{})
	r.server, err = apiserver.New(apiserver.Config{
		Store:    r.store,
		Address:  address,
		ClientCA: r.authority.PEM,
		TokenKey: tokenKey,
		APIOnly:  config.APIOnly,
	})
	if err != nil {
		return err
	}
	if err := r.server.Start(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !config.APIOnly {
		if r.workload, err = startWorkloads(ctx, r, tokenKey, config, logger); err != nil {
			return err
		}
	}
	if err := r.server.Ready(ctx); err != nil {
		return err
	}
	if r.listener != nil {
		r.listener.serve(r.server.Handler(), logger)
	}
	return nil
}

// stop ends whatever start has brought up.
func (r *running) stop() {
	if r.server != nil {
		r.server.EndWatches()
	}
	if r.listener != nil {
		r.listener.stop()
	}
	if r.workload != nil {
		r.workload.stop()
	}
	if r.server != nil {
		r.server.Stop()
	}
	if r.store != nil {
		r.store.Stop()
	}
}
