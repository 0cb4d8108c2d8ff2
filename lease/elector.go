package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// ErrLost is the cause of the cancellation of a leading context when the lease
// could not be renewed in time or was taken by somebody else.
var ErrLost = errors.New("lease lost")

// ErrNotDrained is wrapped by the error of a leading function that returns
// although some of its work still runs.
var ErrNotDrained = errors.New("work still runs")

// Options are what an Elector needs beside its Config.
type Options struct {
	// Leases reaches the Lease objects of Config.Namespace. Its requests must
	// not share a rate limit with others.
	Leases coordinationclient.LeaseInterface
	// Logger may be nil.
	Logger *slog.Logger
	// Metrics receives leader_election_master_status and
	// leader_election_slowpath_total. It may be nil.
	Metrics prometheus.Registerer
	// Jitter returns a random number in [0,1). Nil: no jitter.
	Jitter func() float64
	// Wall is the wall clock, which somebody may set at any time. Nil: time.Now.
	Wall func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Jitter == nil {
		o.Jitter = func() float64 { return 0 }
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	return o
}

// Lead does the work that a lease stands for, and returns when none of it runs
// any more. ctx ends when the work is to stop; what runs may then be brought to
// its end while held lasts. held ends when the lease is not surely held any
// more, with the cause ErrLost when it was lost: nothing may go on after that.
type Lead func(ctx, held context.Context) error

// Elector campaigns for one Lease.
type Elector struct {
	cfg     Config
	opts    Options
	log     *slog.Logger
	metrics metrics
	fence   fence

	// mark, when set, changes the Lease before each write, and remove makes
	// releasing a deletion: a ring's members have these. hurry makes the next
	// renewal come at once.
	mark   func(*coordinationv1.Lease)
	remove bool
	hurry  chan struct{}

	mu   sync.Mutex
	seen observation
	err  error // of the last request, nil when it succeeded
}

// New returns an elector for a Config that Complete returned.
func New(cfg Config, opts Options) (*Elector, error) {
	vectors, err := newVectors(opts.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics of lease %s/%s: %w", cfg.Namespace, cfg.Name, err)
	}
	return newElector(cfg, opts.withDefaults(), vectors.of(cfg.Name)), nil
}

func newElector(cfg Config, opts Options, m metrics) *Elector {
	return &Elector{
		cfg: cfg, opts: opts, metrics: m, hurry: make(chan struct{}, 1),
		log: opts.Logger.With("lease", cfg.Namespace+"/"+cfg.Name, "identity", cfg.Identity),
	}
}

// Identity returns the name of this process in the lease.
func (e *Elector) Identity() string { return e.cfg.Identity }

// Holder returns who was last seen to hold the lease, "" for nobody, and the
// error of the last request about it.
func (e *Elector) Holder() (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.holder(), e.err
}

// Run campaigns until ctx ends, and calls lead each time the lease was won.
// lead's ctx ends with Run's, or with the lease. When lead has returned, the
// lease is released, or campaigned for again when it was lost. Run returns
// lead's error, or nil when ctx ended or lead returned by itself.
func (e *Elector) Run(ctx context.Context, lead Lead) error {
	for e.acquire(ctx) {
		lost, err := e.hold(ctx, lead)
		if err != nil || !lost {
			return err
		}
		e.log.Info("campaigning for the lease again")
	}
	return nil
}

// acquire tries until the lease is ours, and reports false when ctx ended first.
func (e *Elector) acquire(ctx context.Context) bool {
	e.log.Info("campaigning for the lease")
	for ctx.Err() == nil {
		wait, ok := e.try(ctx)
		if ok {
			return true
		}
		// Look again when the lease would expire, but not before a period has
		// passed and, since it may be released, not long after.
		wait = min(max(wait, e.cfg.RetryPeriod/2), e.cfg.RetryPeriod)
		sleep(ctx, wait+time.Duration(e.opts.Jitter()*0.2*float64(wait)), nil)
	}
	return false
}

// try reads the lease and takes it when it is free. Otherwise it returns how
// long the lease has to stay unchanged to become free.
func (e *Elector) try(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.RenewDeadline)
	defer cancel()
	lease, err := e.opts.Leases.Get(ctx, e.cfg.Name, metav1.GetOptions{})
	start := e.now()
	if apierrors.IsNotFound(err) {
		fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.cfg.Namespace, Name: e.cfg.Name}}
		lease, err = e.opts.Leases.Create(ctx, e.claim(fresh, start), metav1.CreateOptions{})
		return e.cfg.RetryPeriod, e.took(lease, err, start, e.fence.set)
	}
	if err != nil {
		e.failed(err)
		return e.cfg.RetryPeriod, false
	}
	seen := e.saw(lease, start)
	if free, left := seen.free(e.cfg.Identity, start.mono); !free {
		return left, false
	}
	lease, err = e.opts.Leases.Update(ctx, e.claim(lease, start), metav1.UpdateOptions{})
	return e.cfg.RetryPeriod, e.took(lease, err, start, e.fence.set)
}

// claim returns the lease as ours from now on.
func (e *Elector) claim(lease *coordinationv1.Lease, now moment) *coordinationv1.Lease {
	next := claimed(lease, e.cfg.Identity, e.cfg.Duration, now.wall)
	if e.mark != nil {
		e.mark(next)
	}
	return next
}

// took records the outcome of a request sent at start that made the lease ours,
// or left it ours; fence is told of it.
func (e *Elector) took(lease *coordinationv1.Lease, err error, start moment, fence func(moment)) bool {
	if err != nil {
		e.failed(err)
		return false
	}
	e.saw(lease, start)
	fence(start)
	return true
}

func (e *Elector) saw(lease *coordinationv1.Lease, now moment) observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.seen.holder()
	e.seen, e.err = e.seen.see(lease, now.mono), nil
	if after := e.seen.holder(); after != before && after != "" && after != e.cfg.Identity {
		e.log.Info("the lease has another holder", "holder", after)
	}
	return e.seen
}

// failed records an error, and logs it when it differs from the one before.
func (e *Elector) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return // another replica was faster
	}
	if apierrors.IsNotFound(err) { // a lease that is not there would have been made
		err = fmt.Errorf("%w: create the namespace, or keep the lease in another one", err)
	}
	told := fmt.Errorf("lease %s/%s: %w", e.cfg.Namespace, e.cfg.Name, err)
	if e.err == nil || e.err.Error() != told.Error() {
		e.log.Warn("the lease could not be read or written", "error", err)
	}
	e.err = told
}

// sleep waits for d, the end of ctx or a wish to be woken.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
}
