package configspec

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/condition"
	"github.com/setpoint-dev/setpoint/finalizer"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	label = "example.com/spec"
	good  = "host: a\nreplicas: 2\n"
	bad   = "host: a\nreplicas: 9\n"
)

// rig is a server and a manager with one controller of websites, in a bubble.
type rig struct {
	*testing.T
	server *apitest.Server
	m      *setpoint.Manager
	logs   bytes.Buffer // read it when nothing moves
	calls  []string     // the hosts that were reconciled, in order
	// each is what a reconcile does beside noting the call.
	each func(context.Context, *Object[website]) (setpoint.Result, error)
}

// start runs a controller of websites on the server until the test ends, once these objects are there.
func start(t *testing.T, place Place, each func(context.Context, *Object[website]) (setpoint.Result, error), objects ...*corev1.ConfigMap) *rig {
	t.Helper()
	r := &rig{T: t, server: apitest.New(apitest.ConfigMaps, apitest.Secrets, apitest.Events), each: each}
	for _, obj := range objects {
		apitest.Put(r.server, obj)
	}
	var err error
	r.m, err = setpoint.NewManager(setpoint.Config{
		REST: r.server.REST(), FieldOwner: "test", Seed: 1,
		Logger: slog.New(slog.NewTextHandler(&r.logs, nil)),
		Kinds:  map[schema.GroupKind]cache.Options{{Kind: "ConfigMap"}: Cache(label)},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := options
	o.Status = place
	websites, err := New(r.m, "website", o)
	if err != nil {
		t.Fatal(err)
	}
	websites.For().Owns(&corev1.Secret{}).Reconcile(websites.Each(r.reconcile))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	r.settle()
	return r
}

func (r *rig) reconcile(ctx context.Context, site *Object[website]) (setpoint.Result, error) {
	r.calls = append(r.calls, site.Spec.Host)
	if r.each == nil {
		return setpoint.Result{}, nil
	}
	return r.each(ctx, site)
}

// settle waits until nothing moves, Events are sent and retries are due.
func (r *rig) settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// edit changes the ConfigMap of that name as a user does.
func (r *rig) edit(name string, change func(*corev1.ConfigMap)) {
	r.Helper()
	cm := r.get(name)
	change(cm)
	apitest.Put(r.server, cm)
	r.settle()
}

// get returns the ConfigMap of that name, as the server has it.
func (r *rig) get(name string) *corev1.ConfigMap {
	r.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if !r.server.Get(cm) {
		r.Fatalf("there is no %s", name)
	}
	return cm
}

// status returns what the annotation of the ConfigMap of that name says.
func (r *rig) status(name string) Status {
	r.Helper()
	return parse(r.T, r.get(name).Annotations["example.com/spec-status"])
}

// writes returns the writes since the last call, other than of Events.
func (r *rig) writes() []string {
	var writes []string
	for _, request := range r.server.Requests() {
		if request.Resource != "events" && !slices.Contains([]string{"get", "list", "watch", "discover"}, request.Verb) {
			writes = append(writes, request.String())
		}
	}
	return writes
}

// reasons returns the reasons of the Events.
func (r *rig) reasons() []string {
	var reasons []string
	for _, e := range r.server.Events() {
		reasons = append(reasons, e.Type+" "+e.Reason)
	}
	return reasons
}

func parse(t *testing.T, text string) Status {
	t.Helper()
	var found record
	if err := yaml.UnmarshalStrict([]byte(text), &found); err != nil {
		t.Fatalf("status %q: %v", text, err)
	}
	return found.Status
}

// document is a ConfigMap with a document.
func document(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{label: "website"}},
		Data:       map[string]string{"spec.yaml": text},
	}
}

// says checks the condition Valid and what a status is about.
func says(t *testing.T, s Status, reason, observed, applied string) {
	t.Helper()
	valid, _ := condition.Get(s.Conditions, ConditionValid)
	if valid.Reason != reason || s.Observed != observed || s.Applied != applied {
		t.Errorf("got %+v, want %s of %s, and %s applied", s, reason, observed, applied)
	}
}

func ready(_ context.Context, site *Object[website]) (setpoint.Result, error) {
	site.Status.Values = map[string]string{"url": "https://" + site.Spec.Host}
	condition.Set(&site.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up"})
	return setpoint.Result{}, nil
}

func TestStatusIsWrittenWhenItChangesAndWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Annotation, ready, document("blog", good))
		// Once before the reconcile, and once after it.
		if diff := cmp.Diff([]string{"patch configmaps default/blog", "patch configmaps default/blog"}, r.writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		s := r.status("blog")
		says(t, s, ReasonValid, Hash(good), Hash(good))
		if s.Values["url"] != "https://a" || !condition.IsTrue(s.Conditions, "Ready") {
			t.Errorf("the reconciler's part is missing: %+v", s)
		}
		if len(r.calls) != 1 {
			t.Errorf("%d calls, want 1: the writing of the status woke the controller", len(r.calls))
		}
		if got := r.get("blog").Data["spec.yaml"]; got != good {
			t.Errorf("the document became %q", got)
		}

		// A new document is noticed, also one that means the same.
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = good + "# the same\n" })
		says(t, r.status("blog"), ReasonValid, Hash(good+"# the same\n"), Hash(good+"# the same\n"))
		r.server.Requests()
		for range 3 {
			r.server.DropWatches(true) // a new listing
			r.settle()
		}
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Annotations["note"] = "of a user" })
		if got := r.writes(); len(r.calls) != 3 || len(got) != 0 {
			t.Errorf("%d calls, want 3; writes at rest: %v", len(r.calls), got)
		}
	})
}

func TestInvalidDocumentKeepsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var invalid []bool
		r := start(t, Annotation, func(ctx context.Context, site *Object[website]) (setpoint.Result, error) {
			invalid = append(invalid, site.Invalid != nil)
			return ready(ctx, site)
		}, document("blog", good))
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = "host: b\nreplicas: 9\n" })
		if diff := cmp.Diff([]string{"a", "a"}, r.calls); diff != "" || !slices.Equal(invalid, []bool{false, true}) {
			t.Errorf("not the last valid document (-want +got):\n%s", diff)
		}
		s := r.status("blog")
		says(t, s, ReasonInvalid, Hash("host: b\nreplicas: 9\n"), Hash(good))
		valid, _ := condition.Get(s.Conditions, ConditionValid)
		if !strings.Contains(valid.Message, "choose 1 to 5") || s.Values["url"] != "https://a" || !condition.IsTrue(s.Conditions, "Ready") {
			t.Errorf("not the reason and what runs: %+v", s)
		}
		if !strings.Contains(r.logs.String(), "choose 1 to 5") {
			t.Error("nothing in the log")
		}
		r.server.Requests()
		r.settle()
		if got := r.writes(); len(got) != 0 {
			t.Errorf("an invalid document at rest costs %v", got)
		}
		if diff := cmp.Diff([]string{"Warning DocumentInvalid"}, r.reasons()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}

		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = "host: c\n" })
		says(t, r.status("blog"), ReasonValid, Hash("host: c\n"), Hash("host: c\n"))
		if len(r.reasons()) != 2 || !slices.Contains(r.reasons(), "Normal DocumentValid") {
			t.Errorf("Events %v", r.reasons())
		}
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data = nil })
		says(t, r.status("blog"), ReasonMissing, "", Hash("host: c\n"))
		if diff := cmp.Diff([]string{"a", "a", "c", "c"}, r.calls); diff != "" {
			t.Errorf("reconciled (-want +got):\n%s", diff)
		}
	})
}

func TestDocumentThatWasNeverValidIsNotReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Annotation, ready, document("blog", bad))
		says(t, r.status("blog"), ReasonInvalid, Hash(bad), "")
		if len(r.calls) != 0 || !strings.Contains(r.logs.String(), "waiting for a change") {
			t.Errorf("calls %v, logged\n%s", r.calls, r.logs.String())
		}
	})
}

// The last valid document counts only while nobody changed its copy, and this program takes it.
func TestLastValidDocumentMustStillBeTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Annotation, ready, document("blog", good))
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = bad })
		r.edit("blog", func(cm *corev1.ConfigMap) {
			cm.Annotations["example.com/spec-applied"] = "host: evil\n"
			cm.Annotations["note"] = "of a user" // else nobody is woken
		})
		if diff := cmp.Diff([]string{"a", "a"}, r.calls); diff != "" {
			t.Errorf("reconciled (-want +got):\n%s", diff)
		}

		// One that this program takes no more is kept, for the one that is there before and after it.
		old := "host: a\ncolour: red\n"
		r.edit("blog", func(cm *corev1.ConfigMap) {
			record := `{"uid":"` + string(cm.UID) + `","observed":"` + Hash(old) + `","applied":"` + Hash(old) + `"}`
			cm.Annotations = map[string]string{"example.com/spec-applied": old, "example.com/spec-status": record}
		})
		says(t, r.status("blog"), ReasonInvalid, Hash(bad), Hash(old))
		if got := r.get("blog").Annotations["example.com/spec-applied"]; got != old || len(r.calls) != 2 {
			t.Errorf("it became %q, calls %v", got, r.calls)
		}
	})
}

// A process that dies between the writes of a reconcile must not fall back to the document before.
func TestDocumentIsKeptBeforeItIsReconciled(t *testing.T) {
	for _, place := range []Place{Annotation, StatusConfigMap} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, place, nil)
			r.each = func(context.Context, *Object[website]) (setpoint.Result, error) {
				kept := r.get("blog").Annotations["example.com/spec-applied"]
				if place == StatusConfigMap {
					kept = r.get("blog-status").Data["spec.yaml"]
				}
				if kept != good {
					t.Errorf("place %d: reconciled when %q was kept", place, kept)
				}
				return setpoint.Result{}, nil
			}
			apitest.Put(r.server, document("blog", good))
			r.settle()
			if len(r.calls) != 1 {
				t.Errorf("place %d: %d calls", place, len(r.calls))
			}
		})
	}
}

// A reconciler that sets the whole status does not take away what is not its own.
func TestStatusIsStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Annotation, func(_ context.Context, site *Object[website]) (setpoint.Result, error) {
			site.Status = Status{Observed: "x", Values: map[string]string{"a": "b"}}
			return setpoint.Result{}, nil
		}, document("blog", good))
		says(t, r.status("blog"), ReasonValid, Hash(good), Hash(good))
	})
}

func TestStatusThatIsRemovedComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Annotation, ready, document("blog", good))
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Annotations = nil })
		says(t, r.status("blog"), ReasonValid, Hash(good), Hash(good))
		r.edit("blog", func(cm *corev1.ConfigMap) {
			cm.Annotations["example.com/spec-status"] = "{"
			cm.Annotations["note"] = "of a user" // else nobody is woken
		})
		says(t, r.status("blog"), ReasonValid, Hash(good), Hash(good))
		if !strings.Contains(r.logs.String(), "cannot be read") {
			t.Errorf("the log does not speak of the broken status:\n%s", r.logs.String())
		}
	})
}

// What a copy of a ConfigMap brings along is about another one.
func TestStatusOfACopyBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := func(_ context.Context, site *Object[website]) (setpoint.Result, error) {
			if site.Status.Values["bucket"] == "" {
				site.Status.Values = map[string]string{"bucket": "of-" + site.ConfigMap.Name}
			}
			return setpoint.Result{}, nil
		}
		r := start(t, Annotation, first, document("blog", good))
		copied := document("copy", good)
		copied.Annotations = r.get("blog").Annotations
		apitest.Put(r.server, copied)
		r.settle()
		if got := r.status("copy").Values["bucket"]; got != "of-copy" {
			t.Errorf("the copy has the bucket %q", got)
		}
	})
}

func TestStatusIsWrittenWhenTheReconcileFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := func(_ context.Context, site *Object[website]) (setpoint.Result, error) {
			condition.Set(&site.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Down"})
			return setpoint.Result{}, setpoint.Terminal(errors.New("no way"))
		}
		r := start(t, Annotation, failing)
		refused := 0
		r.server.Intercept(func(request apitest.Request) error {
			if request.Verb == "patch" && strings.Contains(request.Body, "Down") && refused < 2 {
				refused++
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		apitest.Put(r.server, document("blog", good))
		r.settle()
		if c, _ := condition.Get(r.status("blog").Conditions, "Ready"); c.Reason != "Down" {
			t.Errorf("got %+v", c)
		}
		if len(r.calls) != 3 || !strings.Contains(r.logs.String(), "not now, and before that: no way") {
			t.Errorf("%d calls, want one for each failed writing of the status, which no terminal error may end:\n%s", len(r.calls), r.logs.String())
		}
	})
}

func TestStatusThatIsTooLargeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := func(_ context.Context, site *Object[website]) (setpoint.Result, error) {
			site.Status.Values = map[string]string{"page": strings.Repeat("x", maxStatus)}
			return setpoint.Result{}, nil
		}
		r := start(t, Annotation, large, document("blog", good))
		if got := r.writes(); len(got) != 1 || !strings.Contains(r.logs.String(), "keep less in conditions and values") {
			t.Errorf("wrote %v, logged\n%s", got, r.logs.String())
		}
	})
}

func TestOtherConfigMapsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, plain := document("other", good), document("plain", good)
		other.Labels[label] = "database"
		plain.Labels = nil
		r := start(t, Annotation, nil, document("blog", good), other, plain)
		if len(r.calls) != 1 {
			t.Errorf("calls %v, want one", r.calls)
		}
		var cached corev1.ConfigMapList
		if err := r.m.Client().List(t.Context(), &cached); err != nil || len(cached.Items) != 2 {
			t.Errorf("the cache holds %d ConfigMaps, want the two with the label: %v", len(cached.Items), err)
		}

		// Without the label, and with another value, it is let go.
		r.server.Requests()
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Labels[label], cm.Data["spec.yaml"] = "paused", "host: b" })
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Labels, cm.Data["spec.yaml"] = nil, "host: c" })
		if got := r.writes(); len(r.calls) != 1 || len(got) != 0 {
			t.Errorf("calls %v, writes %v", r.calls, got)
		}
		r.edit("blog", func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{label: "website"} })
		if len(r.calls) != 2 || r.calls[1] != "c" {
			t.Errorf("calls %v, want c at last", r.calls)
		}
	})
}

// Finalizers run whatever became of the document.
func TestDeletionOfAnInvalidDocument(t *testing.T) {
	for _, place := range []Place{Annotation, StatusConfigMap} {
		synctest.Test(t, func(t *testing.T) {
			last := &Object[website]{}
			r := start(t, place, nil)
			r.each = func(ctx context.Context, site *Object[website]) (setpoint.Result, error) {
				last = site
				if site.ConfigMap.DeletionTimestamp != nil {
					return setpoint.Result{}, finalizer.Remove(ctx, r.m.Client(), site.ConfigMap, "example.com/dns")
				}
				site.Status.Values = map[string]string{"record": site.Spec.Host}
				_, err := finalizer.Ensure(ctx, r.m.Client(), site.ConfigMap, "example.com/dns")
				return setpoint.Result{}, err
			}
			apitest.Put(r.server, document("blog", good))
			r.settle()
			r.edit("blog", func(cm *corev1.ConfigMap) { cm.Data["spec.yaml"] = bad })
			r.server.Requests()
			r.server.Delete(document("blog", ""))
			r.settle()
			if last.Invalid == nil || last.Spec.Host != "a" || last.Status.Values["record"] != "a" {
				t.Errorf("place %d: the cleanup got %+v", place, last)
			}
			if diff := cmp.Diff([]string{"patch configmaps default/blog"}, r.writes()); diff != "" {
				t.Errorf("place %d: not the finalizer's removal alone (-want +got):\n%s", place, diff)
			}
			if r.server.Get(document("blog", "")) {
				t.Errorf("place %d: it is still there", place)
			}
		})
	}
}

func TestChildrenAreOwnedByTheConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, Annotation, nil)
		r.each = func(ctx context.Context, site *Object[website]) (setpoint.Result, error) {
			child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: site.ConfigMap.Namespace, Name: site.Spec.Host}}
			if err := owner.SetController(site.ConfigMap, child, r.m.Client().Scheme()); err != nil {
				return setpoint.Result{}, err
			}
			return setpoint.Result{}, r.m.Client().Apply(ctx, child)
		}
		apitest.Put(r.server, document("blog", good))
		r.settle()
		if n := r.server.Count(apitest.Secrets); n != 1 {
			t.Fatalf("%d children", n)
		}
		r.server.Delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		r.settle()
		if n := r.server.Count(apitest.Secrets); n != 1 {
			t.Errorf("%d children after one was deleted", n)
		}
	})
}
