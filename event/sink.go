package event

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
)

// The bounds of sending.
const (
	maxQueued      = 1000             // series that wait to be sent
	requestTimeout = 10 * time.Second // for one request
	maxTries       = 5                // for one event
	retryPeriod    = time.Second      // before the second try; doubled for each further one
	flushTimeout   = 3 * time.Second  // for what is left when Run is stopped
)

// Config configures a Sink.
type Config struct {
	// Client reaches the Events of all namespaces. Nil: events are only logged.
	Client eventsclient.EventsGetter
	// Scheme knows the kinds of the objects that events are about.
	Scheme *runtime.Scheme
	// Instance names this process in the events.
	Instance string
	// Random returns random numbers for the events' names.
	Random func() uint64
	// Logger gets each event at level debug and what goes wrong. Nil discards.
	Logger *slog.Logger
	// Metrics gets setpoint_events_dropped_total. Nil registers nothing.
	Metrics prometheus.Registerer
}

// Sink collects events and sends them.
type Sink struct {
	cfg     Config
	log     *slog.Logger
	dropped *prometheus.CounterVec
	wake    chan struct{} // holds a token when there may be something to send

	mu     sync.Mutex
	recent recent
	budget budget
	queue  []*series // to be sent, in order
}

// NewSink returns a sink that sends nothing before Run.
func NewSink(cfg Config) (*Sink, error) {
	s := &Sink{
		cfg:    cfg,
		log:    cfg.Logger,
		recent: newRecent(),
		budget: newBudget(),
		wake:   make(chan struct{}, 1),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_events_dropped_total",
			Help: "Events that were not sent, by cause: rate (too many of one object), full (too many waiting), failed (the server did not take it).",
		}, []string{"cause"}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(s.dropped); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Recorder returns a recorder that names controller as the reporter.
func (s *Sink) Recorder(controller string) *Recorder {
	return &Recorder{sink: s, controller: controller}
}

// record counts an event in and has it sent.
func (s *Sink) record(k key) {
	s.log.Debug("event", "type", k.eventType, "reason", k.reason, "action", k.action, "note", k.note,
		"controller", k.controller, "kind", k.regarding.Kind, "namespace", k.regarding.Namespace, "name", k.regarding.Name)
	if s.cfg.Client == nil {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.recent.next(k, now)
	if of == nil {
		if len(s.queue) >= maxQueued {
			s.dropped.WithLabelValues("full").Inc()
			return
		}
		if !s.budget.spend(k, now) {
			s.dropped.WithLabelValues("rate").Inc()
			return
		}
		of = s.recent.begin(k, now)
	}
	s.enqueue(of)
}

// enqueue has a series sent when it is due. s.mu is held.
func (s *Sink) enqueue(of *series) {
	if of.queued || of.told == of.count || len(s.queue) >= maxQueued {
		return
	}
	of.queued = true
	s.queue = append(s.queue, of)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends events until ctx ends, then what is left, for a few seconds. It
// returns nil.
func (s *Sink) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		of, wait := s.next(time.Now(), false)
		if of != nil {
			s.send(ctx, of, false)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	for flush.Err() == nil {
		of, _ := s.next(time.Now(), true)
		if of == nil {
			break
		}
		s.send(flush, of, true)
	}
	return nil
}

// next takes the first series that is due out of the queue; all are due when
// flushing. Without one it returns how long to wait.
func (s *Sink) next(now time.Time, flush bool) (*series, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := seriesLife
	for i, of := range s.queue {
		if left := of.due().Sub(now); left > 0 && !flush {
			wait = min(wait, left)
			continue
		}
		s.queue = slices.Delete(s.queue, i, i+1)
		return of, 0
	}
	return nil, wait
}

// send tells the server of a series, trying again for a while. When ctx ends
// meanwhile the series is dropped the last time, and else kept for the flush.
func (s *Sink) send(ctx context.Context, of *series, last bool) {
	s.mu.Lock()
	now := *of // a copy, since occurrences go on being counted
	s.mu.Unlock()

	name, err := now.name, error(nil)
	delay := retryPeriod
	for try := 1; ; try++ {
		name, err = s.request(ctx, now, name)
		if err == nil || try == maxTries || !retriable(err) {
			break
		}
		if !pause(ctx, delay) {
			break
		}
		delay *= 2
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && ctx.Err() != nil && !last {
		s.queue = slices.Insert(s.queue, 0, of)
		return
	}
	of.queued, of.sent = false, time.Now()
	if err != nil {
		s.dropped.WithLabelValues("failed").Inc()
		s.log.Warn("event not sent", "reason", of.key.reason, "namespace", of.key.namespace(), "name", of.key.regarding.Name, "error", err)
		of.told = of.count
		return
	}
	of.name, of.told = name, now.count
	s.enqueue(of)
}

// request sends one request and returns the name of the Event; "" when it has
// to be created anew.
func (s *Sink) request(ctx context.Context, of series, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	events := s.cfg.Client.Events(of.key.namespace())
	if name == "" {
		event := of.key.event(s.cfg.Random(), s.cfg.Instance, metav1.NewMicroTime(of.first))
		if of.count > 1 {
			event.Series = &eventsv1.EventSeries{Count: int32(of.count), LastObservedTime: metav1.NewMicroTime(of.last)}
		}
		created, err := events.Create(ctx, event, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return created.Name, nil
	}
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{
		Count: int32(of.count), LastObservedTime: metav1.NewMicroTime(of.last)}})
	if err != nil {
		return name, err
	}
	_, err = events.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return "", err // its time was up
	}
	return name, err
}

// retriable reports whether a failed request may succeed later: no answer, a
// busy server, a name that is taken, or an Event that is gone and is now created.
func retriable(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return true
	}
	code := status.Status().Code
	return code == 429 || code >= 500 || apierrors.IsAlreadyExists(err) ||
		apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "events"
}

// pause waits for d and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
