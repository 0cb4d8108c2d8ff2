package memcached

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/setpoint-dev/setpoint/client"
	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/owner"
)

// standing is how an object of the name that a Memcached wants stands to it.
type standing int

const (
	// own: it is the Memcached's.
	own standing = iota
	// ending: it is the Memcached's and being deleted.
	ending
	// strange: it is somebody else's.
	strange
	// rejected: there is none, or not as wanted, since the server does not accept it.
	rejected
)

// standingOf tells how an object that exists stands to mc.
func standingOf(obj client.Object, mc *v1.Memcached) standing {
	switch {
	case !owner.IsControlledBy(obj, mc):
		return strange
	case obj.GetDeletionTimestamp() != nil:
		return ending
	default:
		return own
	}
}

// child is an object that a Memcached wants, after a reconcile did what it could about it.
type child struct {
	kind     string
	standing standing
	// there: it exists, is the Memcached's, and stays, though perhaps not as wanted.
	there bool
	// problem says for people why it is strange or rejected.
	problem string
	// err is the server's answer when it was rejected.
	err error
}

// problemOf says for people what is wrong with an object that is somebody else's.
func problemOf(kind string, obj client.Object) string {
	by := "nothing controls it"
	if c := owner.ControllerOf(obj); c != nil {
		by = fmt.Sprintf("%s %q controls it", c.Kind, c.Name)
	}
	return fmt.Sprintf("%s %q exists and is not this Memcached's: %s. Delete it, or use another name for the Memcached.", kind, obj.GetName(), by)
}

// outcome is what a reconcile found and did.
type outcome struct {
	// deleting: the Memcached is being deleted.
	deleting bool
	service  child
	budget   child
	set      child
	// nodes is the StatefulSet whose Pods are the nodes, nil when there is none of the Memcached's own.
	nodes *appsv1.StatefulSet
}

// children returns all of them, the most important first.
func (o outcome) children() []child { return []child{o.set, o.service, o.budget} }
