package external_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/external"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const annotation = "example.com/bucket"

// provider is the world outside: a name for each token.
type provider struct {
	buckets map[string]string // token → name
	calls   []string
	lose    error // the answer of the next Create, which happened
}

func (p *provider) create(_ context.Context, token string) (string, error) {
	p.calls = append(p.calls, "create")
	if p.buckets[token] == "" {
		p.buckets[token] = fmt.Sprintf("bkt-%d", len(p.buckets))
	}
	if err := p.lose; err != nil {
		p.lose = nil
		return "", err
	}
	return p.buckets[token], nil
}

func (p *provider) find(_ context.Context, token string) (string, bool, error) {
	p.calls = append(p.calls, "find")
	name, ok := p.buckets[token]
	return name, ok, nil
}

func (p *provider) delete(_ context.Context, id string) error {
	p.calls = append(p.calls, "delete "+id)
	for token, name := range p.buckets {
		if name == id {
			delete(p.buckets, token)
		}
	}
	return nil
}

// took returns the calls since it was last asked.
func (p *provider) took() string {
	calls := strings.Join(p.calls, ", ")
	p.calls = nil
	return calls
}

func setUp(t *testing.T, idempotent bool) (*client.Client, *apitest.Server, *corev1.ConfigMap, *provider, external.Resource) {
	t.Helper()
	server := apitest.New(apitest.ConfigMaps)
	c, err := client.New(client.Config{REST: server.REST()})
	if err != nil {
		t.Fatal(err)
	}
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{"other": "kept"}}}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	p := &provider{buckets: map[string]string{}}
	r := external.Resource{Annotation: annotation, Create: p.create, Find: p.find, Delete: p.delete}
	if idempotent {
		r.Find = nil
	}
	return c, server, obj, p, r
}

func TestEnsureAndRemove(t *testing.T) {
	c, server, obj, p, r := setUp(t, false)
	for _, want := range []string{"create", ""} {
		id, err := external.Ensure(t.Context(), c, obj, r)
		if err != nil || id != "bkt-0" || p.took() != want {
			t.Fatalf("got %s, %v", id, err)
		}
	}
	server.Get(obj)
	if id, ok := r.ID(obj); !ok || id != "bkt-0" || obj.Annotations["other"] != "kept" {
		t.Errorf("recorded: %v", obj.Annotations)
	}
	for _, want := range []string{"delete bkt-0", ""} {
		if err := external.Remove(t.Context(), c, obj, r); err != nil {
			t.Fatal(err)
		}
		if took := p.took(); took != want {
			t.Errorf("the removal called %q, want %q", took, want)
		}
	}
	server.Get(obj)
	if len(obj.Annotations) != 1 {
		t.Errorf("left: %v", obj.Annotations)
	}
	if _, err := external.Ensure(t.Context(), c, obj, r); err != nil || len(p.buckets) != 1 {
		t.Errorf("again: %v, %v", p.buckets, err)
	}
}

// interruptions are the ways in which an attempt can end without its result being known.
var interruptions = map[string]func(t *testing.T, server *apitest.Server, p *provider){
	"lost answer": func(_ *testing.T, _ *apitest.Server, p *provider) { p.lose = errors.New("connection reset") },
	"result not noted": func(_ *testing.T, server *apitest.Server, _ *provider) {
		patches := 0
		server.Intercept(func(r apitest.Request) error {
			if r.Verb == "patch" {
				patches++
			}
			if patches == 2 {
				return apierrors.NewInternalError(errors.New("the process dies here"))
			}
			return nil
		})
	},
}

func TestInterruptedAttemptIsTakenUp(t *testing.T) {
	for name, interrupt := range interruptions {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, idempotent %v", name, idempotent), func(t *testing.T) {
				c, server, obj, p, r := setUp(t, idempotent)
				interrupt(t, server, p)
				if _, err := external.Ensure(t.Context(), c, obj, r); err == nil {
					t.Fatal("the interrupted attempt succeeded")
				}
				server.Intercept(nil)
				p.took()
				server.Get(obj) // the next reconcile, maybe of another process
				id, err := external.Ensure(t.Context(), c, obj, r)
				want := "find"
				if idempotent {
					want = "create"
				}
				if took := p.took(); err != nil || id != "bkt-0" || len(p.buckets) != 1 || took != want {
					t.Errorf("got %s by %q, %v; there are %v", id, took, err, p.buckets)
				}
			})
		}
	}
}

func TestRemoveOfInterruptedAttempt(t *testing.T) {
	for _, idempotent := range []bool{false, true} {
		c, server, obj, p, r := setUp(t, idempotent)
		p.lose = errors.New("connection reset")
		if _, err := external.Ensure(t.Context(), c, obj, r); err == nil {
			t.Fatal("the interrupted attempt succeeded")
		}
		server.Get(obj)
		if err := external.Remove(t.Context(), c, obj, r); err != nil || len(p.buckets) != 0 {
			t.Errorf("idempotent %v: left %v, %v", idempotent, p.buckets, err)
		}
	}
}

// TestStaleCopyCreatesNothing: a reconcile that does not see another's attempt must not start one of its own.
func TestStaleCopyCreatesNothing(t *testing.T) {
	c, _, obj, p, r := setUp(t, false)
	stale := obj.DeepCopy()
	if _, err := external.Ensure(t.Context(), c, obj, r); err != nil {
		t.Fatal(err)
	}
	p.took()
	_, err := external.Ensure(t.Context(), c, stale, r)
	if took := p.took(); !apierrors.IsConflict(err) || took != "" {
		t.Errorf("called %q: %v", took, err)
	}
	if _, ok := stale.Annotations[annotation]; ok {
		t.Error("the copy shows a record that was not written")
	}
}

func TestRecordThatIsNone(t *testing.T) {
	c, _, obj, p, r := setUp(t, false)
	obj.Annotations[annotation] = "yes"
	_, ensured := external.Ensure(t.Context(), c, obj, r)
	removed := external.Remove(t.Context(), c, obj, r)
	for _, err := range []error{ensured, removed} {
		if err == nil || !strings.Contains(err.Error(), `"yes"`) || len(p.calls) != 0 {
			t.Errorf("got %v", err)
		}
	}
}
