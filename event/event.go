// Package event records Kubernetes Events.
package event

import "k8s.io/apimachinery/pkg/runtime"

// Recorder records events about objects, in the name of one controller.
type Recorder struct{}

// Eventf records that something happened to obj. The type is "Normal" or
// "Warning"; the reason is a CamelCase word that machines may switch on; the
// action says what the controller did or tried. It never blocks and does no
// request itself.
func (r *Recorder) Eventf(obj runtime.Object, eventType, reason, action, note string, args ...any) {}
