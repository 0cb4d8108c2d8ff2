package event

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The types of an event.
const (
	Normal  = corev1.EventTypeNormal
	Warning = corev1.EventTypeWarning
)

// The server's limits, in bytes.
const (
	maxNote     = 1024
	maxReason   = 128
	maxAction   = 128
	maxInstance = 128
	maxName     = 253
)

// Recorder records events in the name of one controller. It may be used
// concurrently. A nil Recorder records nothing.
type Recorder struct {
	sink       *Sink
	controller string
}

// Eventf records that something happened to obj. The type is Normal or Warning;
// the reason is a CamelCase word that machines may switch on; the action says in
// such a word what the controller did or tried. The note is for people. It never
// blocks; what cannot be recorded is logged.
func (r *Recorder) Eventf(obj runtime.Object, eventType, reason, action, note string, args ...any) {
	if r == nil {
		return
	}
	regarding, err := reference(obj, r.sink.cfg.Scheme)
	if err != nil {
		r.sink.log.Error("event not recorded", "reason", reason, "error", err)
		return
	}
	if len(args) > 0 {
		note = fmt.Sprintf(note, args...)
	}
	r.sink.record(key{
		controller: r.controller,
		regarding:  regarding,
		eventType:  eventType,
		reason:     truncate(reason, maxReason),
		action:     truncate(action, maxAction),
		note:       truncate(note, maxNote),
	})
}

// key is what two events of a series have in common.
type key struct {
	controller, eventType, reason, action, note string
	regarding                                   corev1.ObjectReference
}

func (k key) namespace() string {
	if k.regarding.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return k.regarding.Namespace
}

// event returns the Event of the first of a series.
func (k key) event(id uint64, instance string, at metav1.MicroTime) *eventsv1.Event {
	suffix := "." + strconv.FormatUint(id|1<<63, 16)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.namespace(),
			Name:      truncate(k.regarding.Name, maxName-len(suffix)) + suffix,
		},
		EventTime:           at,
		ReportingController: k.controller,
		ReportingInstance:   truncate(instance, maxInstance),
		Action:              k.action,
		Reason:              k.reason,
		Regarding:           k.regarding,
		Note:                k.note,
		Type:                k.eventType,
	}
}

// reference returns what an Event needs to point at obj. The resourceVersion is
// left out, since it would tell events of one series apart.
func reference(obj runtime.Object, scheme *runtime.Scheme) (corev1.ObjectReference, error) {
	if obj == nil {
		return corev1.ObjectReference{}, fmt.Errorf("no object")
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return corev1.ObjectReference{}, fmt.Errorf("%T has no metadata: %w", obj, err)
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		kinds, _, err := scheme.ObjectKinds(obj)
		if err != nil {
			return corev1.ObjectReference{}, fmt.Errorf("kind of %T: %w", obj, err)
		}
		gvk = kinds[0]
	}
	return corev1.ObjectReference{
		APIVersion: groupVersion(gvk),
		Kind:       gvk.Kind,
		Namespace:  m.GetNamespace(),
		Name:       m.GetName(),
		UID:        m.GetUID(),
	}, nil
}

func groupVersion(gvk schema.GroupVersionKind) string { return gvk.GroupVersion().String() }

// truncate cuts s to at most n bytes of valid UTF-8.
func truncate(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
