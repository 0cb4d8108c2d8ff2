package client

import (
	"fmt"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func object(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDigest(t *testing.T) {
	const set = `{"f:spec":{"f:list":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:ref":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{}}},"f:n":{}}}`
	const want = `{"metadata":{"name":"x"},"spec":{"list":[{"name":"a","ref":{"key":"k"}},{"name":"b"}],"n":"0.5"}}`
	const live = `{"spec":{"list":[{"name":"a","ref":{"key":"k","v":"1"}},{"name":"theirs"},{"name":"b","x":1}],"n":"500m","other":1}}`
	base, ok := digestOf(object(t, set), object(t, want), object(t, live))
	if !ok {
		t.Fatal("no digest")
	}
	for _, test := range []struct {
		why             string
		set, want, live string
		same            bool
	}{
		{"a precondition", set, `{"metadata":{"name":"x","uid":"u","resourceVersion":"1"},"spec":{"list":[{"name":"a","ref":{"key":"k"}},{"name":"b"}],"n":"0.5"}}`, live, true},
		{"what is not owned changed", set, want, `{"spec":{"list":[{"name":"a","ref":{"key":"k","v":"1"}},{"name":"b","x":2}],"n":"500m"}}`, true},
		{"what is owned changed", set, want, `{"spec":{"list":[{"name":"a","ref":{"key":"k","v":"2"}},{"name":"b"}],"n":"500m"}}`, false},
		{"the items' order changed", set, want, `{"spec":{"list":[{"name":"b"},{"name":"a","ref":{"key":"k","v":"1"}}],"n":"500m"}}`, false},
		{"an item is missing", set, want, `{"spec":{"list":[{"name":"a","ref":{"key":"k","v":"1"}}],"n":"500m"}}`, false},
		{"a field is missing", set, want, `{"spec":{"list":[{"name":"a","ref":{"key":"k","v":"1"}},{"name":"b"}]}}`, false},
		{"something else is wanted", set, `{"metadata":{"name":"x"},"spec":{"list":[{"name":"a","ref":{"key":"l"}},{"name":"b"}],"n":"0.5"}}`, live, false},
		{"less is owned", `{"f:spec":{"f:n":{}}}`, want, live, false},
	} {
		got, ok := digestOf(object(t, test.set), object(t, test.want), object(t, test.live))
		if same := ok && got == base; same != test.same {
			t.Errorf("%s: same: %v", test.why, same)
		}
	}
}

func TestLaw13AppliesRememberedAreBounded(t *testing.T) {
	var a applications
	for i := range maxApplied + 1 {
		id := application{owner: fmt.Sprint(i)}
		a.remember(id, digest{1})
		if !a.is(id, digest{1}) || len(a.digests) > maxApplied {
			t.Fatalf("%d: %d are kept", i, len(a.digests))
		}
	}
}
