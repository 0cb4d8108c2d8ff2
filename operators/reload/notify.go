package reload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint"
)

const (
	// notifyTimeout bounds one attempt to notify.
	notifyTimeout = 5 * time.Second
	// notifyAttempts is how often one notification is tried, a second apart, then two, and so on.
	notifyAttempts = 4
	// notifyQueue is how many notifications wait at most. Further ones are dropped and counted.
	notifyQueue = 256
)

// Notification is what is posted to Options.NotifyURL for a rollout. It holds names, never content. A notification is
// sent at most once, and may be lost: with the process, or when the receiver does not answer four times in a row.
type Notification struct {
	// Text says it all in a sentence. Slack and Mattermost show it.
	Text string `json:"text"`
	// Time is when the workload was rolled.
	Time time.Time `json:"time"`
	// Kind, Namespace and Name are the workload's.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Sources are what the workload was rolled for.
	Sources []NotifiedSource `json:"sources"`
}

// NotifiedSource is one reason of a rollout.
type NotifiedSource struct {
	Kind string `json:"kind"` // ConfigMap or Secret
	Name string `json:"name"`
	// Reason is "changed", "created" or "deleted".
	Reason string `json:"reason"`
}

func newNotification(w *workload, changes []change) Notification {
	n := Notification{Time: time.Now().UTC(), Kind: w.gvk.Kind, Namespace: w.GetNamespace(), Name: w.GetName()}
	n.Text = fmt.Sprintf("%s %s/%s was rolled, since %s", n.Kind, n.Namespace, n.Name, describe(changes))
	for _, c := range changes {
		n.Sources = append(n.Sources, NotifiedSource{c.source.kind, c.source.name, c.reason})
	}
	return n
}

// notifier posts notifications in the order of the rollouts, one after the other.
type notifier struct {
	url     string
	http    *http.Client
	metrics *metrics
	queue   chan Notification
}

func newNotifier(url string, m *metrics) *notifier {
	return &notifier{
		url: url, metrics: m, queue: make(chan Notification, notifyQueue),
		http: &http.Client{Timeout: notifyTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}},
	}
}

// add queues a notification. It never blocks.
func (n *notifier) add(note Notification) {
	select {
	case n.queue <- note:
	default:
		n.metrics.notifications.WithLabelValues("dropped").Inc()
	}
}

// run sends what is queued until ctx ends.
func (n *notifier) run(ctx context.Context) error {
	defer n.http.CloseIdleConnections()
	for {
		select {
		case note := <-n.queue:
			n.deliver(ctx, note)
		case <-ctx.Done():
			return nil
		}
	}
}

// deliver tries to send a notification until it succeeds, ctx ends or it was tried often enough.
func (n *notifier) deliver(ctx context.Context, note Notification) {
	for attempt := 1; ; attempt++ {
		err := n.post(ctx, note)
		if err == nil {
			n.metrics.notifications.WithLabelValues("sent").Inc()
			return
		}
		if attempt == notifyAttempts || ctx.Err() != nil {
			n.metrics.notifications.WithLabelValues("failed").Inc()
			setpoint.Logger(ctx).Warn("A notification was not sent", "text", note.Text, "attempts", attempt, "error", err)
			return
		}
		timer := time.NewTimer(time.Second << (attempt - 1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (n *notifier) post(ctx context.Context, note Notification) error {
	body, err := json.Marshal(note)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := n.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); err != nil && err != io.EOF {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return nil
}
