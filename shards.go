package setpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/lease"
)

// warmUp is for how long a replica waits for its controllers to be ready before
// it takes shards from others all the same.
const warmUp = 30 * time.Second

// Shards divides the objects of all controllers among all replicas. A request
// belongs to one shard, by a hash of its key. Each shard is held by one replica
// at a time, as leader election does it for everything: only the holder
// reconciles the shard's requests, and when the shard moves, the holder first
// brings to an end what it reconciles of it. All replicas keep their caches of
// everything.
//
// Runnables that are not Standby run where the first shard is.
//
// The replicas must agree on Lease.Name, Count and Key. Before one of these
// changes, or Shards comes in place of LeaderElection, all old replicas must have
// stopped, as with the Recreate strategy of a Deployment. (One that differs only
// in Count waits until the older ones are gone.)
type Shards struct {
	// Lease configures the Leases: of the shards, named "<Name>-<i>", and of the
	// replicas, named "<Name>-member-<hash>". An empty Name is FieldOwner.
	Lease lease.Config
	// Count is the number of shards. More shards divide the load more evenly,
	// and each costs a request every RetryPeriod. Zero: 16.
	Count int
	// Key returns what a request is assigned by: requests of equal keys are in
	// one shard. It must depend on nothing but the request. Nil: all of the
	// request, Request.String.
	Key func(Request) string
}

// complete returns a copy of s with its zero values filled in, or all that is
// wrong with it.
func (s Shards) complete(fieldOwner string) (*Shards, error) {
	var errs []error
	if s.Lease.Name == "" {
		s.Lease.Name = fieldOwner
	}
	if s.Count == 0 {
		s.Count = lease.DefaultShards
	}
	if s.Count < 1 || s.Count > lease.MaxShards {
		errs = append(errs, fmt.Errorf("invalid Shards.Count %d: it must be 1 to %d", s.Count, lease.MaxShards))
	}
	if s.Key == nil {
		s.Key = Request.String
	}
	completed, err := s.Lease.Complete()
	if err != nil {
		errs = append(errs, fmt.Errorf("Shards: %w", err))
	}
	s.Lease = completed
	return &s, errors.Join(errs...)
}

// share takes part in the ring when the controllers are ready, so that nobody
// gives up a shard for a replica that cannot work yet.
func (m *Manager) share(ctx context.Context) error {
	patience := time.NewTimer(warmUp)
	defer patience.Stop()
	for _, s := range m.allSites() {
		select {
		case <-s.synced:
			continue
		case <-patience.C:
			s.log.Warn("joining the ring although not all controllers are ready")
		case <-ctx.Done():
		}
		break
	}
	return m.ring.Run(ctx, func(ctx, held context.Context, shard int) error {
		return m.lead(ctx, held, shard, m.ring.Shard(shard).Fence)
	})
}
