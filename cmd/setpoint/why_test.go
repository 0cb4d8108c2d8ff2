package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

func TestWhyObject(t *testing.T) {
	for line, want := range map[string]string{
		"foo/a": "foo a", "foo a": "foo a", "foo.example.com/a.b": "foo.example.com a.b",
		"foo": "", "foo/": "", "/a": "", "foo/a/b": "", "foo a b": "", "": "", "foo/a b": "",
	} {
		var o whyOptions
		err := o.object(strings.Fields(line))
		if got := strings.TrimSpace(o.kind + " " + o.name); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}

// TestWhyTable shows every way in which an object can stand.
func TestWhyTable(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	causes := []debug.Cause{{Source: "For", Kind: "Foo.example.com", Object: "a/web", Verb: "modified", Count: 3}}
	for name, test := range map[string]struct {
		chapter debug.Chapter
		want    string
	}{
		"idle":      {debug.Chapter{Held: true}, "it was not reconciled lately, and nothing is planned"},
		"waits":     {debug.Chapter{Held: true, Reconciles: []debug.Reconcile{{}}}, "it waits for a change"},
		"standby":   {debug.Chapter{Shard: 3, Holder: "other", Parked: true}, "this replica does not hold the object (shard 3), other does; a request for it is kept until that changes"},
		"nobody":    {debug.Chapter{}, "this replica does not hold the object (shard 0), nobody does"},
		"problem":   {debug.Chapter{Held: true, Problem: "x\ny"}, "it does not work: x; y"},
		"paused":    {debug.Chapter{Held: true, Paused: "object"}, "the object is paused by its annotation"},
		"runs":      {debug.Chapter{Held: true, Now: &debug.Item{State: "running", Since: ago(2 * time.Second), Causes: causes}}, "it runs since 2s, because of For Foo.example.com a/web modified (3 times)"},
		"ready":     {debug.Chapter{Held: true, Now: &debug.Item{State: "ready", Since: ago(90 * time.Second)}}, "it waits for a worker since 1m30s"},
		"throttled": {debug.Chapter{Held: true, Now: &debug.Item{State: "throttled", Due: ago(-time.Minute), Failures: 2}}, "it is to be tried again, and waits for its turn among all retries, in 1m0s, after 2 failures"},
		"retry":     {debug.Chapter{Held: true, Now: &debug.Item{State: "delayed", Class: "retry", Due: ago(-1500 * time.Millisecond), Failures: 4}}, "it is tried again in 1.5s, after 4 failures"},
		"planned": {debug.Chapter{Held: true, Now: &debug.Item{State: "running", Since: ago(0)}, Next: &debug.Item{State: "delayed", Class: "planned", Due: ago(-time.Hour)}},
			"after that it is planned in 1h0m0s"},
	} {
		if got := strings.Join(standing(test.chapter, now), "; "); !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}

	gone := false
	story := told{"operator foo", debug.Story{
		Kind: "Foo.example.com", Namespace: "a", Name: "web", Exists: &gone,
		Controllers: []debug.Chapter{{Controller: "foo", Held: true, Reconciles: []debug.Reconcile{
			{Began: *ago(time.Second), Causes: causes, Result: "error", Error: "no\n luck", Duration: 0.0012, Waited: 0.5, Unlisted: 2, Writes: []debug.Write{
				{Verb: "apply", Kind: "Deployment.apps", Object: "a/web", Fields: []string{"spec.replicas"}},
				{Verb: "patch", Subresource: "status", Kind: "Foo.example.com", Object: "a/web", Error: "conflict"},
			}},
			{Began: *ago(time.Minute), Causes: causes, Result: "requeue_after", After: 3600},
		}}},
	}}
	var out bytes.Buffer
	if err := story.print(&out, now); err != nil {
		t.Fatal(err)
	}
	const want = `Foo.example.com a/web, as operator foo tells it:
  It does not exist, or is outside of what the manager's cache shows.
  Controller foo: it waits for a change.

  WHEN       BECAUSE OF                                     RESULT                    TOOK   WAITED   WROTE
  1s ago     For Foo.example.com a/web modified (3 times)   error: no luck            1ms    500ms    apply Deployment.apps a/web (spec.replicas)
                                                                                                      patch status of Foo.example.com a/web: conflict
                                                                                                      and 2 more
  1m0s ago   For Foo.example.com a/web modified (3 times)   success, again in 1h0m0s  0s     0s
`
	if got := trimLines(out.String()); got != trimLines(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for known, s := range map[bool]debug.Story{
		true:  {Controllers: []debug.Chapter{{Now: &debug.Item{}}}},
		false: {Exists: &gone, Controllers: []debug.Chapter{{Held: true}}},
	} {
		if got := (told{"m", s}).known(); got != known {
			t.Errorf("%+v: known %v", s, got)
		}
	}
}

// A manager that does not answer keeps nobody from telling, and is named.
func TestWhyAsksAll(t *testing.T) {
	exists := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(debug.Story{Exists: &exists})
	}))
	defer server.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	all := &endpoints{all: []endpoint{
		{name: "crashed", err: errors.New("the Pod is gone")},
		{name: "undebugged", url: down.URL, http: down.Client()},
		{name: "alive", url: server.URL, http: server.Client()},
	}}
	o := whyOptions{name: "web"}
	stories, err := o.stories(t.Context(), all, "foo", "a")
	if len(stories) != 1 || stories[0].Manager != "alive" {
		t.Errorf("stories %+v", stories)
	}
	for _, want := range []string{"asking crashed: the Pod is gone", "asking undebugged: it serves no debug endpoint"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

// trimLines leaves one space where there are several, so that the widths of columns do not matter.
func trimLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}
