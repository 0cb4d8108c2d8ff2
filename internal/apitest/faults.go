package apitest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fault is something that happens to a request on its way.
type Fault string

// The faults. Those of the first group keep a request from the server; after those
// of the second it was served, but the caller does not learn how.
const (
	Conflict   Fault = "conflict" // 409, writes of existing objects only
	Busy       Fault = "busy"     // 429 with Retry-After
	Broken     Fault = "broken"   // 500
	NotReached Fault = "not reached"

	Lost         Fault = "lost"          // the connection ends
	LostSlowly   Fault = "lost slowly"   // nothing comes until the caller's patience ends
	BrokenInside Fault = "broken inside" // 500
)

// AllFaults returns all of them, Conflict last.
func AllFaults() []Fault {
	return []Fault{Busy, Broken, NotReached, Lost, LostSlowly, BrokenInside, Conflict}
}

// patience is how long a request that gets no answer takes to fail.
const patience = 10 * time.Second

// Faults is a RoundTripper that lets things go wrong on the way to another one.
// What goes wrong follows from the seed, the request and the time, so that in
// virtual time it does not depend on the scheduler.
type Faults struct {
	next http.RoundTripper
	seed uint64
	note func(path string, met Fault)

	mu      sync.Mutex
	rate    float64
	watches map[*watchThrough]bool
}

// NewFaults returns a RoundTripper without faults; see SetRate. Note is told of
// each request that meets one.
func NewFaults(seed uint64, next http.RoundTripper, note func(path string, met Fault)) *Faults {
	return &Faults{next: next, seed: seed, note: note, watches: map[*watchThrough]bool{}}
}

// SetRate sets the share of the requests that meet a fault, from 0 to 1.
func (f *Faults) SetRate(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// RoundTrip implements http.RoundTripper.
func (f *Faults) RoundTrip(req *http.Request) (*http.Response, error) {
	fault := f.choose(req)
	if fault == "" && req.URL.Query().Get("watch") != "" {
		return f.watch(req)
	}
	if fault == "" {
		return f.next.RoundTrip(req)
	}
	f.note(req.URL.Path, fault)
	switch fault {
	case Lost, LostSlowly, BrokenInside:
		resp, err := f.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
	default:
		if req.Body != nil {
			req.Body.Close()
		}
	}
	switch fault {
	case Conflict:
		return failure(req, apierrors.NewConflict(schema.GroupResource{}, "", errors.New("injected"))), nil
	case Busy:
		return failure(req, apierrors.NewTooManyRequests("injected", 1)), nil
	case Broken, BrokenInside:
		return failure(req, apierrors.NewInternalError(errors.New("injected"))), nil
	case LostSlowly:
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil, fmt.Errorf("injected: %w", context.DeadlineExceeded)
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	default:
		return nil, fmt.Errorf("injected: %w", io.ErrUnexpectedEOF)
	}
}

// choose returns the fault that a request meets, or "".
func (f *Faults) choose(req *http.Request) Fault {
	if isDiscovery(req.URL.Path) {
		// client-go waits with a lock held when discovery fails; for those who wait for a lock no virtual time passes.
		return ""
	}
	hash := fnv.New64a()
	fmt.Fprint(hash, req.Method, req.URL.Path, time.Now().UnixNano())
	random := rand.New(rand.NewPCG(f.seed, hash.Sum64()))
	f.mu.Lock()
	rate := f.rate
	f.mu.Unlock()
	if random.Float64() >= rate {
		return ""
	}
	faults := AllFaults()
	if req.Method != http.MethodPut && req.Method != http.MethodPatch {
		faults = faults[:len(faults)-1]
	}
	fault := faults[random.IntN(len(faults))]
	if (fault == LostSlowly || fault == Busy) && isDiscovery(req.URL.Path) {
		// client-go's mapper holds a lock meanwhile; for those who wait for a lock no virtual time passes.
		return Lost
	}
	return fault
}

// isDiscovery reports whether a path is that of no object or collection.
func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return len(parts) < 3 || parts[0] != "api" && len(parts) < 4
}

// watchThrough is the body of a watch that can be cut.
type watchThrough struct {
	io.ReadCloser
	f   *Faults
	cut context.CancelFunc
}

func (f *Faults) watch(req *http.Request) (*http.Response, error) {
	ctx, cut := context.WithCancel(req.Context())
	resp, err := f.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cut()
		return nil, err
	}
	w := &watchThrough{resp.Body, f, cut}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[w] = true
	resp.Body = w
	return resp, nil
}

// CutWatches ends all watches as when their connections break.
func (f *Faults) CutWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watches {
		w.cut()
	}
}

// Close implements io.Closer.
func (w *watchThrough) Close() error {
	w.cut()
	w.f.mu.Lock()
	delete(w.f.watches, w)
	w.f.mu.Unlock()
	return w.ReadCloser.Close()
}
