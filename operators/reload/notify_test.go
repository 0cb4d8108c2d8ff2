package reload

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type receiver func(*http.Request) (int, error)

func (f receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	status, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: http.NoBody, Request: r}, nil
}

// The receiver fails in all ways before it takes a notification, and never takes another one.
func TestNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		m, err := newMetrics(registry, newBudget(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		n := newNotifier("http://example.com/hook", m)
		var bodies []string
		attempts := 0
		n.http.Transport = receiver(func(r *http.Request) (int, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			bodies = append(bodies, string(body))
			attempts++
			switch {
			case attempts == 1:
				return 0, errors.New("no way")
			case attempts == 2:
				<-r.Context().Done() // it hangs
				return 0, r.Context().Err()
			case attempts == 4:
				return http.StatusNoContent, nil
			}
			return http.StatusInternalServerError, nil
		})
		w := &workload{workloadKind: workloadKinds()[0], Object: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}}
		note := newNotification(w, []change{{source{kindSecret, "db"}, changed}})
		begin := time.Now()
		for range notifyQueue + 3 { // before anything is sent: it must not block
			n.add(note)
		}
		go func() {
			if err := n.run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		var got Notification
		if err := json.Unmarshal([]byte(bodies[3]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Kind != "Deployment" || got.Name != "web" || len(got.Sources) != 1 || got.Sources[0] != (NotifiedSource{kindSecret, "db", changed}) ||
			!got.Time.Equal(begin) || got.Text != "Deployment default/web was rolled, since Secret db was changed" {
			t.Errorf("got %+v", got)
		}
		for result, want := range map[string]float64{"sent": 1, "failed": notifyQueue - 1, "dropped": 3} {
			if got := notificationsOf(t, registry, result); got != want {
				t.Errorf("%v notifications are %s, want %v", got, result, want)
			}
		}
	})
}

// notificationsOf returns how many notifications had a result.
func notificationsOf(t *testing.T, registry *prometheus.Registry, result string) (n float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "setpoint_reload_notifications_total" && m.GetLabel()[0].GetValue() == result {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestOptions(t *testing.T) {
	bad := Options{
		Workloads: []string{"Pod"}, Namespaces: []string{"a"}, IgnoreConfigMaps: true, IgnoreSecrets: true,
		MaxRolling: -1, RollingTimeout: -1, NotifyURL: "ftp://example.com",
	}
	parseFlags(t, &bad, "-namespace-selector=team=web")
	said := bad.check().Error()
	for _, word := range []string{`"Pod"`, "namespace-selector", "ignore-secrets", "max-rolling", "rolling-timeout", "notify-url"} {
		if !strings.Contains(said, word) {
			t.Errorf("the error does not speak of %s: %s", word, said)
		}
	}

	var o Options
	parseFlags(t, &o, "-workloads=Deployment, Job", "-namespaces=a,b", "-source-selector=follow=yes", "-workload-selector=roll=yes",
		"-ignore-secrets", "-auto-all", "-on-create", "-on-delete", "-window=3s", "-max-rolling=4", "-rolling-timeout=1m", "-dry-run",
		"-notify-url=https://example.com", "-key=ops/key")
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if !o.IgnoreSecrets || !o.AutoAll || !o.OnCreate || !o.OnDelete || o.window() != 3*time.Second || o.MaxRolling != 4 ||
		o.rollingTimeout() != time.Minute || !o.DryRun || o.key().String() != "ops/key" || len(o.kinds()) != 2 {
		t.Errorf("got %+v", o)
	}
	kinds := Kinds(o)
	if len(kinds) != 3 || kinds[sourceKind(kindConfigMap).GroupKind()].Labels.String() != "follow=yes" ||
		len(kinds[workloadKinds()[0].gvk.GroupKind()].Namespaces) != 2 {
		t.Errorf("the cache's options are %+v", kinds)
	}
	if err := (&Options{}).check(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	if o := (Options{Window: -1}); o.window() != 0 {
		t.Errorf("no window is %v", o.window())
	}
}
