package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// mutated applies the patch that a webhook answers a recorded review with, and
// returns the object before and after as JSON.
func mutated(t *testing.T, name string, fn func(context.Context, Request[*appsv1.Deployment]) error) (before, after string, response *admissionv1.AdmissionResponse) {
	t.Helper()
	body := recorded(t, name)
	response = admit(t, Mutate(fn), body)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	raw := review.Request.Object.Raw
	if len(response.Patch) == 0 {
		return string(raw), string(raw), response
	}
	if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("patch type %v", response.PatchType)
	}
	return string(raw), string(patched(t, raw, response.Patch)), response
}

// patched applies a JSON patch in the simplest way. That API servers read it so,
// too, is shown against one.
func patched(t *testing.T, raw, patch []byte) []byte {
	t.Helper()
	value, err := parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var steps []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &steps); err != nil {
		t.Fatalf("%v: %s", err, patch)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, step := range steps {
		at, parts := value, strings.Split(step.Path, "/")[1:]
		for i, part := range parts {
			part = unescape.Replace(part)
			last := i == len(parts)-1
			switch parent := at.(type) {
			case map[string]any:
				_, has := parent[part]
				switch {
				case !last:
					at = parent[part]
				case has == (step.Op == "add"):
					t.Fatalf("%s %s in %v", step.Op, step.Path, parent)
				case step.Op == "remove":
					delete(parent, part)
				default:
					parent[part], err = parse(step.Value)
				}
			case []any:
				index, errIndex := strconv.Atoi(part)
				switch {
				case errIndex != nil || last && step.Op != "replace":
					t.Fatalf("%s %s in a list: %v", step.Op, step.Path, errIndex)
				case !last:
					at = parent[index]
				default:
					parent[index], err = parse(step.Value)
				}
			default:
				t.Fatalf("%s %s leads nowhere", step.Op, step.Path)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// diffJSON compares two objects, numbers by how they are written.
func diffJSON(t *testing.T, want, got string) string {
	t.Helper()
	a, errA := parse([]byte(want))
	b, errB := parse([]byte(got))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	return cmp.Diff(a, b)
}

func TestMutateNothing(t *testing.T) {
	for _, name := range []string{"create", "update"} {
		_, _, response := mutated(t, name, func(context.Context, Request[*appsv1.Deployment]) error { return nil })
		if !response.Allowed || response.Patch != nil || response.PatchType != nil {
			t.Errorf("%s: response %+v, patch %s", name, response, response.Patch)
		}
	}
	_, _, response := mutated(t, "delete", func(context.Context, Request[*appsv1.Deployment]) error { panic("called") })
	if !response.Allowed {
		t.Error("a deletion is not allowed")
	}
}

// Regression for kubernetes-sigs/controller-runtime #2982: a webhook must not drop
// fields that its Go type does not know. The recorded object has some, in maps
// and in lists, and a number that no Go type of the usual ones can hold.
func TestBug2982UnknownFieldsStay(t *testing.T) {
	_, after, response := mutated(t, "create", func(_ context.Context, r Request[*appsv1.Deployment]) error {
		spec := &r.Object.Spec.Template.Spec
		*r.Object.Spec.Replicas = 3
		spec.Containers[0].Image = "mirror/" + spec.Containers[0].Image
		// A sidecar in front moves the others.
		spec.Containers = append([]corev1.Container{{Name: "first", Image: "init:1"}}, spec.Containers...)
		return nil
	})
	want := `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop","generation":3,"creationTimestamp":"2026-03-02T10:00:00Z","labels":{"app":"web"},
		"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"apps/v1","time":"2026-03-02T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]},
		"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"strategy":{"type":"RollingUpdate"},"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
		"spec":{"restartPolicy":"Always","schedulerHint":{"zone":"a","weight":12345678901234567890},"containers":[
			{"name":"first","image":"init:1","resources":{}},
			{"name":"web","image":"mirror/nginx:1.29","resources":{"limits":{"cpu":"1000m"}},"sinceNextYear":{"mode":"fast"}},
			{"name":"proxy","image":"envoy:2","resources":{},"sinceNextYear":{"mode":"slow"}}]}}}}`
	if diff := diffJSON(t, want, after); diff != "" {
		t.Errorf("differs (-want +got):\n%s\npatch %s", diff, response.Patch)
	}
}

func TestPatchIsSmall(t *testing.T) {
	_, _, response := mutated(t, "update", func(_ context.Context, r Request[*appsv1.Deployment]) error {
		*r.Object.Spec.Replicas = min(*r.Object.Spec.Replicas, 2**r.Old.Spec.Replicas)
		r.Object.Labels["example.com/checked~by"] = "hook"
		r.Object.Spec.Template.Spec.RestartPolicy = ""
		r.Object.Spec.Template.Spec.Containers[1].Resources.Limits = corev1.ResourceList{}
		return nil
	})
	want := `[{"op":"add","path":"/metadata/labels/example.com~1checked~0by","value":"hook"},{"op":"replace","path":"/spec/replicas","value":4},{"op":"remove","path":"/spec/template/spec/restartPolicy"}]`
	if string(response.Patch) != want {
		t.Errorf("patch %s, want %s", response.Patch, want)
	}
}

func TestMutateDenies(t *testing.T) {
	_, _, response := mutated(t, "create", func(_ context.Context, r Request[*appsv1.Deployment]) error {
		r.Object.Labels = nil
		return errors.New("no")
	})
	if response.Allowed || response.Patch != nil || response.Result.Message != "no" {
		t.Errorf("response %+v", response)
	}
}

// Each case is what was sent, what a type made of it before and after the
// function, and what must come out.
func TestMerge(t *testing.T) {
	for why, test := range map[string]struct{ raw, before, after, want string }{
		"nothing":                                {`{"a":1,"x":2}`, `{"a":1,"b":""}`, `{"a":1,"b":""}`, `{"a":1,"x":2}`},
		"a field is set":                         {`{"x":2}`, `{"b":""}`, `{"b":"c"}`, `{"x":2,"b":"c"}`},
		"a field is removed":                     {`{"a":1,"x":2}`, `{"a":1}`, `{}`, `{"x":2}`},
		"a field that was not sent is removed":   {`{"x":2}`, `{"b":""}`, `{}`, `{"x":2}`},
		"a struct is removed with what is in it": {`{"s":{"a":1,"x":2}}`, `{"s":{"a":1}}`, `{}`, `{}`},
		"a struct loses its last known field":    {`{"s":{"a":1,"x":2}}`, `{"s":{"a":1}}`, `{"s":{}}`, `{"s":{"x":2}}`},
		"an empty struct gets a field":           {`{"s":{"x":2}}`, `{}`, `{"s":{"a":1}}`, `{"s":{"a":1,"x":2}}`},
		"a list becomes null":                    {`{"l":[1]}`, `{"l":[1]}`, `{"l":null}`, `{"l":null}`},
		"null becomes a list":                    {`{"l":null}`, `{"l":null}`, `{"l":[1]}`, `{"l":[1]}`},
		"the type normalises what it leaves":     {`{"q":"1000m"}`, `{"q":"1"}`, `{"q":"1"}`, `{"q":"1000m"}`},
		"list: changed in place":                 {`[{"a":1,"x":1},{"a":2,"x":2}]`, `[{"a":1},{"a":2}]`, `[{"a":1},{"a":3}]`, `[{"a":1,"x":1},{"a":3,"x":2}]`},
		"list: appended":                         {`[{"a":1,"x":1}]`, `[{"a":1}]`, `[{"a":1},{"a":2}]`, `[{"a":1,"x":1},{"a":2}]`},
		"list: first removed":                    {`[{"a":1,"x":1},{"a":2,"x":2}]`, `[{"a":1},{"a":2}]`, `[{"a":2}]`, `[{"a":2,"x":2}]`},
		"list: swapped by name, one changed": {`[{"name":"a","v":1,"x":1},{"name":"b","v":2,"x":2}]`, `[{"name":"a","v":1},{"name":"b","v":2}]`,
			`[{"name":"b","v":3},{"name":"a","v":1}]`, `[{"name":"b","v":3,"x":2},{"name":"a","v":1,"x":1}]`},
		"list: replaced by another of that place": {`[{"name":"a","x":1}]`, `[{"name":"a"}]`, `[{"name":"b"}]`, `[{"name":"b"}]`},
		"list: equal ones stay in order":          {`[{"a":1,"x":1},{"a":1,"x":2}]`, `[{"a":1},{"a":1}]`, `[{"a":1},{"a":1},{"a":1}]`, `[{"a":1,"x":1},{"a":1,"x":2},{"a":1}]`},
		"list: emptied":                           {`[1,2]`, `[1,2]`, `[]`, `[]`},
		"list: filled":                            {`[]`, `[]`, `[1]`, `[1]`},
		"list: the type sees another length":      {`[1,null]`, `[1]`, `[2]`, `[2]`},
		"another kind of value":                   {`{"a":[1]}`, `{"a":[1]}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
	} {
		value := func(text string) any {
			v, err := parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return v
		}
		raw := value(test.raw)
		got := merge(raw, value(test.before), value(test.after))
		if diff := cmp.Diff(value(test.want), got); diff != "" {
			t.Errorf("%s: differs (-want +got):\n%s", why, diff)
		}
		if diff := cmp.Diff(value(test.raw), raw); diff != "" {
			t.Errorf("%s: the object as sent was changed:\n%s", why, diff)
		}
		// The patch leads from what was sent to the result, by an implementation of somebody else.
		patch, err := json.Marshal(diff(raw, got))
		if err != nil {
			t.Fatal(err)
		}
		if test.raw[0] == '{' {
			if d := diffJSON(t, test.want, string(patched(t, []byte(test.raw), patch))); d != "" {
				t.Errorf("%s: patch %s leads elsewhere:\n%s", why, patch, d)
			}
		}
	}
}
