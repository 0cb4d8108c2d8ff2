package steps_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/steps"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trace is a reconciler that writes down what it did.
type trace struct {
	done   []string
	server *apitest.Server
	client *client.Client
	obj    *corev1.ConfigMap
}

func newTrace(t *testing.T, finalizers ...string) *trace {
	t.Helper()
	server := apitest.New(apitest.ConfigMaps)
	c, err := client.New(client.Config{REST: server.REST()})
	if err != nil {
		t.Fatal(err)
	}
	obj := apitest.Put(server, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", Finalizers: finalizers}})
	return &trace{server: server, client: c, obj: obj}
}

// step is a function for a step of that name and outcome.
func (r *trace) step(name string, outcome steps.Outcome, err error) func(context.Context, *corev1.ConfigMap) (steps.Outcome, error) {
	return func(context.Context, *corev1.ConfigMap) (steps.Outcome, error) {
		r.done = append(r.done, name)
		return outcome, err
	}
}

func (r *trace) do(name string, outcome steps.Outcome, err error) steps.Step[*corev1.ConfigMap] {
	return steps.Do(name, r.step(name, outcome, err))
}

func (r *trace) finalizer(name string, outcome steps.Outcome, err error) steps.Step[*corev1.ConfigMap] {
	return steps.Finalizer(r.client, "example.com/"+name, r.step("clean up "+name, outcome, err))
}

func (r *trace) last() steps.Step[*corev1.ConfigMap] {
	return steps.Last("status", func(_ context.Context, _ *corev1.ConfigMap, p steps.Progress) error {
		r.done = append(r.done, fmt.Sprintf("status: stopped by %q", p.Step))
		return nil
	})
}

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		why   string
		steps func(*trace) []steps.Step[*corev1.ConfigMap]
		done  []string
		after time.Duration
		err   error
	}{
		{"all are done", func(r *trace) []steps.Step[*corev1.ConfigMap] {
			return []steps.Step[*corev1.ConfigMap]{r.do("a", steps.Continue, nil), r.do("b", steps.Continue, nil), r.last()}
		}, []string{"a", "b", `status: stopped by ""`}, 0, nil},
		{"one stops", func(r *trace) []steps.Step[*corev1.ConfigMap] {
			return []steps.Step[*corev1.ConfigMap]{r.do("a", steps.Stop, nil), r.do("b", steps.Continue, nil), r.last()}
		}, []string{"a", `status: stopped by "a"`}, 0, nil},
		{"one waits", func(r *trace) []steps.Step[*corev1.ConfigMap] {
			return []steps.Step[*corev1.ConfigMap]{r.do("a", steps.After(time.Minute), nil), r.do("b", steps.Continue, nil), r.last()}
		}, []string{"a", `status: stopped by "a"`}, time.Minute, nil},
		{"one waits for no time", func(r *trace) []steps.Step[*corev1.ConfigMap] {
			return []steps.Step[*corev1.ConfigMap]{r.do("a", steps.After(0), nil), r.do("b", steps.Continue, nil)}
		}, []string{"a"}, 1, nil},
		{"one fails", func(r *trace) []steps.Step[*corev1.ConfigMap] {
			return []steps.Step[*corev1.ConfigMap]{r.do("a", steps.After(time.Minute), broken), r.do("b", steps.Continue, nil), r.last()}
		}, []string{"a", `status: stopped by "a"`}, 0, broken},
	} {
		t.Run(test.why, func(t *testing.T) {
			r := newTrace(t)
			result, err := steps.Run(t.Context(), r.obj, test.steps(r)...)
			if !errors.Is(err, test.err) || result != (setpoint.Result{RequeueAfter: test.after}) {
				t.Errorf("got %+v, %v", result, err)
			}
			if err != nil && !strings.Contains(err.Error(), `step "a"`) {
				t.Errorf("the error does not name the step: %v", err)
			}
			if !slices.Equal(r.done, test.done) {
				t.Errorf("did %q, want %q", r.done, test.done)
			}
		})
	}
}

func TestFinalizerComesBeforeEffects(t *testing.T) {
	r := newTrace(t)
	check := steps.Do("a", func(_ context.Context, obj *corev1.ConfigMap) (steps.Outcome, error) {
		if there := obj.DeepCopy(); !r.server.Get(there) || !slices.Equal(there.Finalizers, []string{"example.com/x", "example.com/y"}) || there.ResourceVersion != obj.ResourceVersion {
			t.Errorf("there is %v, and the step was given %v", there, obj)
		}
		return steps.Continue, nil
	})
	if _, err := steps.Run(t.Context(), r.obj, r.finalizer("x", 0, nil), r.finalizer("y", 0, nil), check); err != nil {
		t.Fatal(err)
	}
	_, err := steps.Run(t.Context(), r.obj, r.do("a", 0, nil), r.finalizer("x", 0, nil))
	if !setpoint.IsTerminal(err) || len(r.done) > 0 {
		t.Errorf("a finalizer after an effect: %v, did %q", err, r.done)
	}
}

func TestDeletion(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		why        string
		finalizers []string
		first      steps.Outcome
		err        error
		done, left []string
		after      time.Duration
	}{
		{"both are cleaned up in their order", []string{"example.com/y", "example.com/x"}, steps.Continue, nil, []string{"clean up x", "clean up y"}, nil, 0},
		{"others' finalizers stay", []string{"example.org/z", "example.com/x"}, steps.Continue, nil,
			[]string{"clean up x", `status: stopped by ""`}, []string{"example.org/z"}, 0},
		{"the first is not done", []string{"example.com/x", "example.com/y"}, steps.After(time.Second), nil,
			[]string{"clean up x", `status: stopped by "finalizer example.com/x"`}, []string{"example.com/x", "example.com/y"}, time.Second},
		{"the first fails", []string{"example.com/x", "example.com/y"}, steps.Continue, broken,
			[]string{"clean up x", `status: stopped by "finalizer example.com/x"`}, []string{"example.com/x", "example.com/y"}, 0},
		{"none is ours", []string{"example.org/z"}, steps.Continue, nil, []string{`status: stopped by ""`}, []string{"example.org/z"}, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			r := newTrace(t, test.finalizers...)
			r.server.Delete(r.obj)
			r.server.Get(r.obj)
			result, err := steps.Run(t.Context(), r.obj,
				r.finalizer("x", test.first, test.err), r.finalizer("y", 0, nil), r.do("a", 0, nil), r.last())
			if !errors.Is(err, test.err) || result.RequeueAfter != test.after {
				t.Errorf("got %+v, %v", result, err)
			}
			if !slices.Equal(r.done, test.done) {
				t.Errorf("did %q, want %q", r.done, test.done)
			}
			if r.server.Get(r.obj); !slices.Equal(r.obj.Finalizers, test.left) {
				t.Errorf("left %q, want %q", r.obj.Finalizers, test.left)
			}
		})
	}
}

// TestFailedStatusIsRetried: an error that no retry mends must not keep the status from being written by one.
func TestFailedStatusIsRetried(t *testing.T) {
	r := newTrace(t)
	invalid, lost := errors.New("invalid"), errors.New("lost")
	_, err := steps.Run(t.Context(), r.obj, r.do("a", 0, setpoint.Terminal(invalid)),
		steps.Last("status", func(context.Context, *corev1.ConfigMap, steps.Progress) error { return lost }))
	if setpoint.IsTerminal(err) || !errors.Is(err, lost) || !strings.Contains(err.Error(), "invalid") {
		t.Errorf("got %v", err)
	}
	_, err = steps.Run(t.Context(), r.obj, r.do("a", 0, setpoint.Terminal(invalid)), r.last())
	if !setpoint.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

// Found in controller-runtime, whose finalizers run in the random order of a map: cleanups run in the order in which
// the steps are declared, each only when the one before is done and its finalizer gone, wherever a run was
// interrupted.
func TestBugDFinalizersRunInOrder(t *testing.T) {
	names := []string{"e", "c", "a", "d", "b"}
	var finalizers []string
	for _, name := range names {
		finalizers = append(finalizers, "example.com/"+name)
	}
	slices.Sort(finalizers) // the order at the server is another one
	r := newTrace(t, finalizers...)
	r.server.Delete(r.obj)
	for stop := range names { // the cleanup that is not done yet
		r.server.Get(r.obj)
		r.done = nil
		var cleanups []steps.Step[*corev1.ConfigMap]
		for i, name := range names {
			outcome := steps.Continue
			if i == stop {
				outcome = steps.Stop
			}
			cleanups = append(cleanups, r.finalizer(name, outcome, nil))
		}
		if _, err := steps.Run(t.Context(), r.obj, cleanups...); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, name := range names[max(stop-1, 0) : stop+1] {
			want = append(want, "clean up "+name)
		}
		if !slices.Equal(r.done, want) {
			t.Errorf("run %d did %q, want %q", stop, r.done, want)
		}
		if n := len(r.obj.Finalizers); n != len(names)-stop {
			t.Errorf("run %d left %d finalizers", stop, n)
		}
	}
}
