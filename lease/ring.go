package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultShards is the number of shards that a ring has unless told otherwise:
// enough for eight replicas with an even load.
const DefaultShards = 16

// MaxShards bounds the number of Leases that have to be renewed all the time.
const MaxShards = 256

// errMoved is the cause of the end of work whose shard is another member's now.
var errMoved = errors.New("the shard goes to another member")

// nameLike is what the name of a ring must be, for it is a label's value, too.
var nameLike = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,53}[a-z0-9])?$`)

// Ring divides work in shards among all members that are alive. Each shard is a
// Lease, "<name>-<i>", of which an Elector takes care. Each member is a Lease,
// too, "<name>-member-<hash>"; see the package comment for the laws.
type Ring struct {
	cfg    Config
	log    *slog.Logger
	opts   Options
	self   *Elector
	shards []*Elector

	leaving atomic.Bool

	mu      sync.Mutex
	members []string // that are alive, as last seen; nil: not known yet
	err     error    // why this member holds nothing, or could not look
}

// NewRing returns a ring of so many shards, for a Config that Complete
// returned. All members must agree on the name and on the number; one that does
// not agree with an older one holds nothing until that one is gone.
func NewRing(cfg Config, shards int, opts Options) (*Ring, error) {
	if shards < 1 || shards > MaxShards {
		return nil, fmt.Errorf("ring %s/%s: %d shards, but there must be 1 to %d", cfg.Namespace, cfg.Name, shards, MaxShards)
	}
	if !nameLike.MatchString(cfg.Name) {
		return nil, fmt.Errorf("ring %s/%s: the name must be at most 55 lower-case letters, digits, dashes and dots", cfg.Namespace, cfg.Name)
	}
	vectors, err := newVectors(opts.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics of ring %s/%s: %w", cfg.Namespace, cfg.Name, err)
	}
	opts = opts.withDefaults()
	r := &Ring{cfg: cfg, opts: opts, log: opts.Logger.With("ring", cfg.Namespace+"/"+cfg.Name, "identity", cfg.Identity)}
	for i := range shards {
		e := newElector(r.named(shardName(cfg.Name, i)), opts, vectors.of(shardName(cfg.Name, i)))
		e.mark = r.label
		r.shards = append(r.shards, e)
	}
	nobody, _ := newVectors(nil) // a member's Lease is no leadership
	r.self = newElector(r.named(fmt.Sprintf("%s-member-%016x", cfg.Name, hash(cfg.Identity))), opts, nobody.of(""))
	r.self.mark, r.self.remove = r.describe, true
	return r, nil
}

func shardName(ring string, shard int) string { return ring + "-" + strconv.Itoa(shard) }

func (r *Ring) named(name string) Config {
	cfg := r.cfg
	cfg.Name = name
	return cfg
}

// label makes a Lease one of the ring's.
func (r *Ring) label(lease *coordinationv1.Lease) {
	metav1.SetMetaDataLabel(&lease.ObjectMeta, ringLabel, r.cfg.Name)
}

// describe writes into a member's Lease what the others have to know.
func (r *Ring) describe(lease *coordinationv1.Lease) {
	r.label(lease)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, shardsAnnotation, strconv.Itoa(len(r.shards)))
	delete(lease.Annotations, leavingAnnotation)
	if r.leaving.Load() {
		lease.Annotations[leavingAnnotation] = "true"
	}
}

// Shard returns the elector of a shard: whether it is held, and its fence.
func (r *Ring) Shard(i int) *Elector { return r.shards[i] }

// Identity returns the name of this process in the ring.
func (r *Ring) Identity() string { return r.cfg.Identity }

// Held returns the shards that this member holds now.
func (r *Ring) Held() []int {
	held := []int{}
	for i, e := range r.shards {
		if e.Leading() {
			held = append(held, i)
		}
	}
	return held
}

// Members returns the members that share the ring, sorted, as this one saw them
// last, and what keeps it from holding shards or from looking.
func (r *Ring) Members() ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.members), r.err
}

// Run joins the ring and holds what falls to this member until ctx ends. It
// calls lead for each shard that it holds, as Elector.Run does, and again each
// time that the shard comes back. When the shard is to move to another member,
// ctx of that call ends. Run returns when no lead runs any more: nil, or the
// error of one. ErrNotDrained is no error of Run: the shard's Lease expires, and
// the others are not disturbed.
func (r *Ring) Run(ctx context.Context, lead func(ctx, held context.Context, shard int) error) error {
	return r.self.Run(ctx, func(ctx, _ context.Context) error {
		defer r.leaving.Store(false)
		return r.hold(ctx, lead)
	})
}

// turn is a shard that is being campaigned for or held.
type turn struct{ stop context.CancelCauseFunc }

// ending is the end of a turn.
type ending struct {
	shard int
	err   error
}

// hold follows the assignments while this process is a member.
func (r *Ring) hold(ctx context.Context, lead func(ctx, held context.Context, shard int) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	assignments, ended := make(chan []string), make(chan ending)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		r.watch(ctx, assignments)
	}()
	owners := make([]string, len(r.shards))
	turns := map[int]turn{}
	stopping := ctx.Done()
	for {
		select {
		case owners = <-assignments:
		case end := <-ended:
			delete(turns, end.shard)
			switch {
			case errors.Is(end.err, ErrNotDrained):
				r.log.Error("a shard could not be handed over in time: what still runs can write nothing any more", "shard", end.shard, "error", end.err)
			case end.err != nil:
				failed = errors.Join(failed, end.err)
				stop()
			}
		case <-stopping:
			stopping = nil
			r.leave()
		}
		if ctx.Err() != nil && len(turns) == 0 {
			<-watching
			return failed
		}
		for shard, owner := range owners {
			t, taken := turns[shard]
			switch wanted := owner == r.cfg.Identity; {
			case taken && !wanted:
				t.stop(errMoved)
			case wanted && !taken && ctx.Err() == nil:
				turnCtx, cancel := context.WithCancelCause(ctx)
				turns[shard] = turn{cancel}
				go func() {
					defer cancel(nil)
					err := r.shards[shard].Run(turnCtx, func(ctx, held context.Context) error { return lead(ctx, held, shard) })
					ended <- ending{shard, err}
				}()
			}
		}
	}
}

// leave tells the others at once that they may take over what this member
// gives up.
func (r *Ring) leave() {
	r.leaving.Store(true)
	select {
	case r.self.hurry <- struct{}{}:
	default:
	}
}

// watch looks for the members again and again, and sends who is to hold what.
func (r *Ring) watch(ctx context.Context, assignments chan<- []string) {
	seen := roster{}
	for {
		var err error
		seen, err = r.look(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.note(nil, fmt.Errorf("list the members of ring %s/%s: %w", r.cfg.Namespace, r.cfg.Name, err))
		default:
			select {
			case assignments <- r.decide(seen):
			case <-ctx.Done():
			}
		}
		sleep(ctx, r.cfg.RetryPeriod, nil)
	}
}

// look lists the ring's Leases and deletes those of members that are long dead.
func (r *Ring) look(ctx context.Context, seen roster) (roster, error) {
	listCtx, cancel := context.WithTimeout(ctx, r.cfg.RenewDeadline)
	defer cancel()
	list, err := r.opts.Leases.List(listCtx, metav1.ListOptions{LabelSelector: ringLabel + "=" + r.cfg.Name})
	if err != nil {
		return seen, err
	}
	now := r.self.now()
	for i, e := range r.shards {
		// So that a shard whose holder is gone need not be watched from then on
		// only.
		if lease := named(list.Items, shardName(r.cfg.Name, i)); lease != nil && !e.Leading() {
			e.saw(lease, now)
		}
	}
	seen = seen.see(list.Items, now.mono)
	for _, lease := range seen.dead(now.mono) {
		err := r.opts.Leases.Delete(listCtx, lease.Name, asRead(lease))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			r.log.Warn("the Lease of a member that is gone could not be deleted", "member", lease.Name, "error", err)
		}
	}
	return seen, nil
}

// named returns the Lease of that name, or nil.
func named(leases []coordinationv1.Lease, name string) *coordinationv1.Lease {
	i := slices.IndexFunc(leases, func(lease coordinationv1.Lease) bool { return lease.Name == name })
	if i < 0 {
		return nil
	}
	return &leases[i]
}

// decide returns who is to hold what.
func (r *Ring) decide(seen roster) []string {
	members, err := decide(seen.alive(r.self.now().mono), r.cfg.Identity, len(r.shards))
	if err == nil {
		members = append(members, r.cfg.Identity)
	}
	slices.Sort(members)
	r.note(members, err)
	return assign(members, r.cfg.Name, len(r.shards))
}

// note keeps what was seen, and logs what is new of it.
func (r *Ring) note(members []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && (r.err == nil || r.err.Error() != err.Error()) {
		r.log.Warn("this member cannot take part in the ring", "error", err)
	}
	if r.err = err; members == nil {
		return
	}
	if !slices.Equal(r.members, members) {
		r.log.Info("the ring has other members", "members", strings.Join(members, ", "))
	}
	r.members = members
}
