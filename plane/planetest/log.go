package planetest

import (
	"bytes"
	"sync"
)

// maxLog is how much of the plane's log is kept: its end.
const maxLog = 64 << 10

// log keeps the end of what is written to it.
type log struct {
	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	if len(l.kept) > 2*maxLog {
		l.kept = bytes.Clone(l.kept[len(l.kept)-maxLog:])
		l.cut = true
	}
	return len(p), nil
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return "…" + string(l.kept)
	}
	return string(l.kept)
}
