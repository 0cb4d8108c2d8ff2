package lease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observation is the last Lease seen and since when, on our clock, it has been
// as it is.
type observation struct {
	lease *coordinationv1.Lease
	since time.Time
}

// see returns the observation after lease was read at now.
func (o observation) see(lease *coordinationv1.Lease, now time.Time) observation {
	if o.lease != nil && o.lease.UID == lease.UID && o.lease.ResourceVersion == lease.ResourceVersion {
		return o
	}
	return observation{lease: lease, since: now}
}

// holder returns who holds the observed lease, "" when nobody does.
func (o observation) holder() string {
	if o.lease == nil || o.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *o.lease.Spec.HolderIdentity
}

// free reports whether me may take the observed lease at now, and if not, how
// long the lease has still to stay unchanged.
func (o observation) free(me string, now time.Time) (bool, time.Duration) {
	if h := o.holder(); h == "" || h == me {
		return true, 0
	}
	left := o.duration() - now.Sub(o.since)
	return left <= 0, left
}

// duration is for how long the observed lease lasts when it stays unchanged. A
// holder that does not say it is given the default.
func (o observation) duration() time.Duration {
	if s := o.lease.Spec.LeaseDurationSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return DefaultDuration
}

// claimed returns the lease with me as its holder from now on. It keeps what
// others put into the object.
func claimed(old *coordinationv1.Lease, me string, duration time.Duration, now time.Time) *coordinationv1.Lease {
	next := old.DeepCopy()
	spec := &next.Spec
	at := metav1.NewMicroTime(now)
	seconds := int32(duration / time.Second)
	if spec.HolderIdentity == nil || *spec.HolderIdentity != me {
		transitions := int32(0)
		if spec.LeaseTransitions != nil {
			transitions = *spec.LeaseTransitions + 1
		}
		spec.LeaseTransitions = &transitions
		spec.AcquireTime = &at
	}
	spec.HolderIdentity = &me
	spec.LeaseDurationSeconds = &seconds
	spec.RenewTime = &at
	return next
}

// released returns the lease with no holder, so that the next replica need not
// wait.
func released(old *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	next := old.DeepCopy()
	nobody, second := "", int32(1)
	at := metav1.NewMicroTime(now)
	next.Spec.HolderIdentity = &nobody
	next.Spec.LeaseDurationSeconds = &second
	next.Spec.RenewTime = &at
	next.Spec.AcquireTime = &at
	return next
}
