package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

const (
	// eventsPerSecond and eventBurst bound ordinary Events. Warnings pass always.
	eventsPerSecond = 50
	eventBurst      = 100
	// eventBuffer bounds the Events that wait to be written. More are dropped: they
	// are for people to read, and nobody reads thousands.
	eventBuffer = 1000
)

// recorder writes Events about Pods from one goroutine, so that they never hold up
// the Pods.
type recorder struct {
	client     kubernetes.Interface
	namespaces corelisters.NamespaceLister
	logger     *slog.Logger
	off        bool
	limit      *rate.Limiter
	waiting    chan *corev1.Event
	serial     atomic.Uint32
}

func newRecorder(client kubernetes.Interface, namespaces corelisters.NamespaceLister, logger *slog.Logger, off bool) *recorder {
	return &recorder{
		client: client, namespaces: namespaces, logger: logger, off: off,
		limit:   rate.NewLimiter(eventsPerSecond, eventBurst),
		waiting: make(chan *corev1.Event, eventBuffer),
	}
}

// record queues an Event of the component, or drops it: beyond the limits, and in
// a namespace that is being deleted, which takes none.
func (r *recorder) record(pod *corev1.Pod, component, host string, e event) {
	if r.off || !e.warning && !r.limit.Allow() {
		return
	}
	if namespace, err := r.namespaces.Get(pod.Namespace); err != nil || namespace.DeletionTimestamp != nil {
		return
	}
	select {
	case r.waiting <- r.eventOf(pod, component, host, e, time.Now()):
	default:
	}
}

func (r *recorder) eventOf(pod *corev1.Pod, component, host string, e event, now time.Time) *corev1.Event {
	kind, field := corev1.EventTypeNormal, ""
	if e.warning {
		kind = corev1.EventTypeWarning
	}
	if e.container != "" {
		field = fmt.Sprintf("spec.containers{%s}", e.container)
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      fmt.Sprintf("%s.%x%04x", pod.Name, now.UnixMilli(), r.serial.Add(1)&0xffff),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID, ResourceVersion: pod.ResourceVersion, FieldPath: field,
		},
		Type: kind, Reason: e.reason, Message: e.message, Count: 1,
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
		Source:              corev1.EventSource{Component: component, Host: host},
		ReportingController: component, ReportingInstance: host,
	}
}

func (r *recorder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.waiting:
			if _, err := r.client.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				r.logger.Debug("Event is lost", "namespace", e.Namespace, "pod", e.InvolvedObject.Name, "reason", e.Reason, "error", err)
			}
		}
	}
}
