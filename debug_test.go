package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// copying makes a controller that owns a Secret per ConfigMap and does what their
// data asks for.
func copying(r *rig) {
	setpoint.For[*corev1.ConfigMap](r.m, "copy").
		Owns(&corev1.Secret{}).
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			if o.Data["fail"] != "" {
				return setpoint.Result{}, errors.New(o.Data["fail"])
			}
			s := secret(o.Name)
			s.StringData = map[string]string{"copied": o.Data["value"]}
			if err := owner.SetController(o, s, r.m.Client().Scheme()); err != nil {
				return setpoint.Result{}, err
			}
			if err := r.m.Client().Get(ctx, client.KeyOf(s), &corev1.Secret{}); err == nil {
				return setpoint.Result{RequeueAfter: time.Hour}, nil
			}
			return setpoint.Result{RequeueAfter: time.Hour}, r.m.Client().Create(ctx, s)
		})
}

func (r *rig) story(kind, name string) debug.Story {
	r.Helper()
	var s debug.Story
	r.getJSON(debug.PathObject+"?kind="+kind+"&namespace=default&name="+name, &s)
	return s
}

// told says a reconcile in a line.
func told(r debug.Reconcile) string {
	var causes, writes []string
	for _, c := range r.Causes {
		causes = append(causes, strings.TrimSpace(c.Source+" "+c.Kind+" "+c.Verb))
	}
	for _, w := range r.Writes {
		writes = append(writes, w.Verb+" "+w.Kind+" "+w.Object+" "+w.Error)
	}
	return fmt.Sprintf("%s of %s because of %v: %s %s, wrote %v", r.Controller, r.Object, causes, r.Result, r.Error, writes)
}

func allTold(reconciles []debug.Reconcile) []string {
	lines := []string{}
	for _, r := range reconciles {
		lines = append(lines, strings.TrimSpace(told(r)))
	}
	return lines
}

// The story of an object tells its last reconciles with causes and writes, and when
// it runs next.
func TestStoryOfAnObject(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		r := newRig(t, server, debugging)
		copying(r)
		r.start()
		apitest.Put(server, configMap("default", "web"))
		settle(time.Second)

		s := r.story("configmaps", "web")
		if s.Kind != "ConfigMap" || s.Exists == nil || !*s.Exists || len(s.Controllers) != 1 || s.Instance == "" {
			t.Fatalf("%+v", s)
		}
		chapter := s.Controllers[0]
		if diff := cmp.Diff([]string{
			"copy of default/web because of [Owns Secret added]: requeue_after , wrote []",
			"copy of default/web because of [For ConfigMap added]: requeue_after , wrote [create Secret default/web ]",
		}, allTold(chapter.Reconciles)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if w := chapter.Reconciles[1].Writes[0]; w.Version == "" {
			t.Errorf("the write names no version: %+v", w)
		}
		if chapter.Now == nil || chapter.Now.State != "delayed" || chapter.Now.Class != "planned" ||
			time.Until(*chapter.Now.Due).Round(time.Minute) != time.Hour || chapter.Next != nil || !chapter.Held || chapter.Paused != "" {
			t.Errorf("%+v", chapter)
		}

		apitest.Put(server, &corev1.ConfigMap{ObjectMeta: configMap("default", "web").ObjectMeta, Data: map[string]string{"fail": "no luck"}})
		settle(time.Minute)
		chapter = r.story("ConfigMap", "web").Controllers[0]
		last := chapter.Reconciles[0]
		if len(chapter.Reconciles) != 8 || last.Result != "error" || last.Error != "no luck" || last.Causes[0].Source != "Retry" ||
			chapter.Now.Class != "retry" || chapter.Now.Failures < 8 {
			t.Errorf("%d reconciles, the last %+v, now %+v", len(chapter.Reconciles), last, chapter.Now)
		}

		paused := configMap("default", "web")
		paused.Annotations = map[string]string{setpoint.PausedAnnotation: "true"}
		apitest.Put(server, paused)
		settle(time.Second)
		if chapter = r.story("configmap", "web").Controllers[0]; chapter.Paused != "object" || chapter.Reconciles[0].Result != "skipped" || chapter.Now != nil {
			t.Errorf("paused: %+v", chapter)
		}
	})
}

// An object that no controller reconciles has the story of those that wrote it, and
// one that nobody knows has none.
func TestStoryOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Secrets)
		r := newRig(t, server, debugging)
		copying(r)
		r.start()
		apitest.Put(server, configMap("default", "web"))
		settle(time.Second)

		s := r.story("secrets", "web")
		if s.Kind != "Secret" || !*s.Exists || len(s.Controllers) != 0 {
			t.Errorf("%+v", s)
		}
		if diff := cmp.Diff([]string{
			"copy of default/web because of [Owns Secret added]: requeue_after , wrote []",
			"copy of default/web because of [For ConfigMap added]: requeue_after , wrote [create Secret default/web ]",
		}, allTold(s.Others)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		s = r.story("Foo", "web")
		if s.Kind != "Foo" || s.Exists != nil || len(s.Controllers)+len(s.Others) != 0 {
			t.Errorf("%+v", s)
		}
		if code, body := r.get(debug.PathObject + "?kind=ConfigMap&namespace=default&name=web&cluster=none"); code != 200 ||
			strings.Contains(body, "copy") || !strings.Contains(body, `"controllers": []`) {
			t.Errorf("in a cluster that there is not: %d %s", code, body)
		}
		if code, body := r.get(debug.PathObject); code != 400 || !strings.Contains(body, "?kind=Foo&namespace=") {
			t.Errorf("%d %s", code, body)
		}
	})
}

// Where a kind has no namespaces it does not matter which one is asked for.
func TestStoryWithoutNamespace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.Namespaces)
		r := newRig(t, server, debugging)
		setpoint.For[*corev1.Namespace](r.m, "teams").Reconcile(func(context.Context, *corev1.Namespace) (setpoint.Result, error) {
			return setpoint.Result{}, nil
		})
		r.start()
		team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		apitest.Put(server, team)
		settle(time.Second)
		s := r.story("namespace", "team")
		if s.Namespace != "" || !*s.Exists || len(s.Controllers[0].Reconciles) != 1 {
			t.Errorf("%+v", s)
		}
		server.Delete(team)
		settle(time.Second)
		if s = r.story("namespace", "team"); *s.Exists || len(s.Controllers[0].Reconciles) == 0 {
			t.Errorf("deleted: %+v", s)
		}
	})
}

// A replica that stands by says who holds an object, and what it keeps for the day
// that it leads.
func TestStoryOfAStandby(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps, apitest.Leases)
		apitest.Put(server, configMap("default", "web"))
		ran := &calls{}
		leader, standby := newRig(t, server, elected("a"), debugging), newRig(t, server, elected("b"), debugging)
		for _, r := range []*rig{leader, standby} {
			r.counting(ran, setpoint.Result{})
			r.start()
			settle(time.Second)
		}
		for _, test := range []struct {
			r          *rig
			held       bool
			reconciles int
		}{{leader, true, 1}, {standby, false, 0}} {
			c := test.r.story("ConfigMap", "web").Controllers[0]
			if c.Held != test.held || c.Holder != "a" || len(c.Reconciles) != test.reconciles || c.Parked || c.Now != nil {
				t.Errorf("%+v: %+v", test, c)
			}
			var o debug.Overview
			test.r.getJSON(debug.PathOverview, &o)
			if l := o.Leadership; l.Mode != "election" || l.Leading != test.held || len(l.Leases) != 1 || l.Leases[0].Holder != "a" || (l.Leases[0].Fence != nil) != test.held {
				t.Errorf("%+v: %+v", test, l)
			}
		}
	})
}

// What is kept of the past is bounded: of each object, in objects, in writes and in
// the length of errors.
func TestHistoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		const objects = 1500
		for n := range objects {
			apitest.Put(server, configMap("default", fmt.Sprint("o", n)))
		}
		r := newRig(t, server, debugging)
		setpoint.For[*corev1.ConfigMap](r.m, "many").Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			if text := o.Data["error"]; text != "" {
				return setpoint.Result{}, errors.New(text)
			}
			for n := range len(o.Data["writes"]) {
				before := o.DeepCopy()
				o.Data = map[string]string{"n": fmt.Sprint(n)}
				if err := r.m.Client().Patch(ctx, o, client.MergeFrom(before)); err != nil {
					return setpoint.Result{}, err
				}
			}
			return setpoint.Result{}, nil
		})
		r.start()
		settle(time.Second)
		kept := 0
		for n := range objects {
			kept += len(r.story("ConfigMap", fmt.Sprint("o", n)).Controllers[0].Reconciles)
		}
		if kept != 1000 {
			t.Errorf("%d objects have a past", kept)
		}

		busy := configMap("default", "busy")
		busy.Data = map[string]string{"writes": strings.Repeat("x", 20)}
		apitest.Put(server, busy)
		settle(time.Second)
		reconciles := r.story("ConfigMap", "busy").Controllers[0].Reconciles
		first := reconciles[len(reconciles)-1]
		if len(first.Writes) != 16 || first.Unlisted != 4 || !slices.Equal(first.Writes[0].Fields, []string{"data.n", "data.writes"}) {
			t.Errorf("%d writes and %d more, the first %+v", len(first.Writes), first.Unlisted, first.Writes[0])
		}

		noisy := configMap("default", "noisy")
		noisy.Data = map[string]string{"error": strings.Repeat("é", 1<<20)}
		apitest.Put(server, noisy)
		settle(time.Millisecond)
		reconciles = r.story("ConfigMap", "noisy").Controllers[0].Reconciles
		if text := reconciles[0].Error; len(text) > 1<<10 || !strings.HasSuffix(text, "é…") {
			t.Errorf("an error of %d bytes is kept, ending in %q", len(text), text[max(len(text)-20, 0):])
		}
	})
}
