package setpoint_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/webhook"
)

// documented returns the labels of the metrics in the table of docs/metrics.md, by
// name, and their types.
func documented(t *testing.T) (labels, types map[string]string) {
	t.Helper()
	data, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	labels, types = map[string]string{}, map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\| [^|]{10,} \\|$")
	for _, match := range row.FindAllStringSubmatch(string(data), -1) {
		if types[match[1]] != "" {
			t.Errorf("docs/metrics.md has %s twice", match[1])
		}
		labels[match[1]] = strings.TrimSpace(strings.ReplaceAll(match[3], "`", ""))
		types[match[1]] = match[2]
	}
	return labels, types
}

// registered returns the labels of all metrics of a registry, by name, but for those
// of Go and of the process.
func registered(registry *prometheus.Registry) map[string]string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	description := regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: .*, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	found := map[string]string{}
	for desc := range descs {
		match := description.FindStringSubmatch(desc.String())
		if match == nil {
			found[desc.String()] = "is not understood"
			continue
		}
		if strings.HasPrefix(match[1], "go_") || strings.HasPrefix(match[1], "process_") {
			continue
		}
		var labels []string
		for label := range strings.SplitSeq(match[2]+","+match[3], ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		found[match[1]] = strings.Join(labels, ", ")
	}
	return found
}

// observed makes a manager with all that has metrics.
func observed(t *testing.T, server *apitest.Server) *rig {
	t.Helper()
	r := newRig(t, server, elected("a"), debugging)
	if err := r.m.AddCluster("other", setpoint.ClusterConfig{REST: server.REST()}); err != nil {
		t.Fatal(err)
	}
	hooks, err := webhook.NewServer(webhook.Config{Certificates: webhook.NewFiles("none", "none", nil), Metrics: r.m.Metrics()})
	if err != nil {
		t.Fatal(err)
	}
	hooks.Handle("/hook", webhook.Validate(func(context.Context, webhook.Request[*corev1.ConfigMap]) ([]string, error) { return nil, nil }))
	return r
}

// docs/metrics.md lists what a manager registers, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := observed(t, apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Leases, apitest.Events))
		copying(r)
		r.start()
		labels, types := documented(t)
		found := registered(r.m.Metrics())
		for name, got := range found {
			if want, ok := labels[name]; !ok || want != got {
				t.Errorf("%s has the labels %q; docs/metrics.md says %q (named there: %v)", name, got, want, ok)
			}
		}
		for name := range labels {
			if _, ok := found[name]; !ok {
				t.Errorf("docs/metrics.md names %s, which does not exist", name)
			}
		}
		families, err := r.m.Metrics().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if want := types[family.GetName()]; want != "" && want != strings.ToLower(family.GetType().String()) {
				t.Errorf("%s is a %v, docs/metrics.md says %s", family.GetName(), family.GetType(), want)
			}
		}
	})
}

// The number of series does not grow with the number of objects: 10 000 objects of
// 100 namespaces, which fail, are written and recorded, have as many as one.
func TestSeriesDoNotGrowWithObjects(t *testing.T) {
	series := func(t *testing.T, objects int) (n int) {
		bubble(t, func(t *testing.T) {
			server := apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Leases, apitest.Events)
			for i := range objects {
				apitest.Put(server, configMap(fmt.Sprint("ns-", i%100), fmt.Sprint("object-", i)))
			}
			r := observed(t, server)
			recorder := r.m.Events("busy")
			setpoint.For[*corev1.ConfigMap](r.m, "busy").Owns(&corev1.Secret{}).Workers(10).
				Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
					recorder.Eventf(o, corev1.EventTypeNormal, "Seen", "Look", "object %s", o.Name)
					if o.Labels["seen"] == "" {
						before := o.DeepCopy()
						o.Labels = map[string]string{"seen": "yes"}
						return setpoint.Result{}, r.m.Client().Patch(ctx, o, client.MergeFrom(before))
					}
					if len(o.Name)%2 == 0 {
						return setpoint.Result{}, fmt.Errorf("object %s does not please", o.Name)
					}
					return setpoint.Result{RequeueAfter: time.Hour}, nil
				})
			r.start()
			settle(20 * time.Millisecond) // each once, and some retries
			for line := range strings.Lines(r.metric("")) {
				if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") {
					n++
				}
			}
		})
		return n
	}
	few, many := series(t, 2), series(t, 10_000)
	t.Logf("%d series for 2 objects, %d for 10 000", few, many)
	if many > few+50 || many > 1000 {
		t.Errorf("%d series for 2 objects, %d for 10 000", few, many)
	}
}
