package cache

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/filter"
)

// TestModel runs random changes, outages, compactions and subscribers against a scripted server. Whenever the
// server lets things come to rest, the cache's list is the server's, and what each subscriber was told adds up
// to the same. SETPOINT_SEED repeats one run; with SETPOINT_FUZZTIME it goes on for so long (make fuzz).
func TestModel(t *testing.T) {
	first, runs, atLeast := rand.Uint64()>>16, uint64(60), time.Duration(0)
	if text := os.Getenv("SETPOINT_SEED"); text != "" {
		var err error
		first, err = strconv.ParseUint(text, 10, 64)
		must(err)
		runs = 1
	} else if text := os.Getenv("SETPOINT_FUZZTIME"); text != "" {
		var err error
		atLeast, err = time.ParseDuration(text)
		must(err)
	}
	start := time.Now()
	for seed := first; !t.Failed() && (seed < first+runs || time.Since(start) < atLeast); seed++ {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t, rand.NewPCG(seed, 0)).run() })
		})
	}
}

type model struct {
	*harness
	t          *testing.T
	rnd        *rand.Rand
	kind       schema.GroupVersionKind
	collection string
	replays    []*replay
	namespaces []string // nil: all
}

// replay is a subscriber that keeps books: what it was told must be possible at each step.
type replay struct {
	t       *testing.T
	watch   *Watch
	delay   time.Duration // how slow it is
	mu      sync.Mutex
	changed bool              // the initial changes are over
	known   map[string]string // key → UID@revision
}

func newModel(t *testing.T, choices rand.Source) *model {
	m := &model{t: t, rnd: rand.New(choices), kind: podKind, collection: pods}
	s := newServer()
	if m.rnd.IntN(2) == 0 {
		m.kind, m.collection = widgetKind, widgets
	}
	s.noStreaming = pick(m.rnd, "", "", "", "silent", "invalid")
	cfg := Config{Default: Options{MetadataOnly: m.rnd.IntN(4) == 0, Compress: m.rnd.IntN(2) == 0}}
	if m.rnd.IntN(3) == 0 {
		m.namespaces = []string{"a", "b"}
		cfg.Default.Namespaces = m.namespaces
	}
	s.jsonOnly = m.rnd.IntN(4) == 0
	m.harness = start(t, s, cfg)
	must(m.Index(m.kind, "app", byApp))
	return m
}

func (m *model) run() {
	m.change(20)
	m.join()
	for range 40 {
		m.step()
		if m.rnd.IntN(8) == 0 {
			m.rest()
		}
	}
	m.rest()
	for _, r := range m.replays {
		r.watch.Close()
	}
}

func (m *model) step() {
	s := m.server
	switch m.rnd.IntN(11) {
	case 0:
		s.drop(pick(m.rnd, nil, io.ErrUnexpectedEOF))
	case 1:
		s.mute()
	case 2:
		s.compact()
	case 3:
		s.bookmark()
	case 4:
		s.setFault(pick(m.rnd, nil, forbid, func(*http.Request) *http.Response {
			return statusResponse(apierrors.NewTooManyRequests("busy", 3))
		}))
	case 5:
		m.join()
	case 6:
		if len(m.replays) > 1 {
			i := m.rnd.IntN(len(m.replays))
			m.replays[i].watch.Close()
			m.replays = slices.Delete(m.replays, i, i+1)
		}
	case 7:
		if m.namespaces != nil || m.rnd.IntN(10) == 0 {
			m.namespaces = slices.DeleteFunc([]string{"a", "b", "c"}, func(string) bool { return m.rnd.IntN(2) == 0 })
			must(m.SetNamespaces(m.kind, m.namespaces...))
		}
	default:
		m.change(1 + m.rnd.IntN(10))
	}
	if m.rnd.IntN(2) == 0 {
		pass(time.Duration(m.rnd.IntN(5000)) * time.Millisecond)
	}
}

// change makes some changes.
func (m *model) change(n int) {
	for range n {
		namespace, name := pick(m.rnd, "a", "b", "c"), fmt.Sprint(m.rnd.IntN(12))
		labels := map[string]string{"app": pick(m.rnd, "x", "y")}
		switch {
		case m.rnd.IntN(3) == 0:
			m.server.delete(m.collection, namespace+"/"+name)
		case m.kind == podKind:
			m.server.put(m.collection, pod(namespace, name, labels))
		default:
			m.server.put(m.collection, widget(namespace, name, labels))
		}
	}
}

func (m *model) join() {
	r := &replay{t: m.t, known: map[string]string{}}
	if m.rnd.IntN(3) == 0 {
		r.delay = time.Duration(m.rnd.IntN(500)) * time.Millisecond
	}
	w, err := m.Watch(m.kind, r.record)
	if err != nil {
		m.t.Fatal(err)
	}
	r.watch = w
	m.replays = append(m.replays, r)
}

func (r *replay) record(c filter.Change) {
	if r.delay > 0 {
		time.Sleep(r.delay)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	state := func(s *filter.State) string { return string(s.Meta().UID) + "@" + s.Meta().ResourceVersion }
	meta := c.Latest().Meta()
	k := joinKey(key(meta.Namespace, meta.Name))
	was, known := r.known[k]
	switch {
	case c.Initial && r.changed:
		r.t.Errorf("%s is initial after a change", k)
	case c.Old == nil && known:
		r.t.Errorf("%s was added twice: %s, then %s", k, was, state(c.New))
	case c.Old != nil && was != state(c.Old):
		r.t.Errorf("%s: told of %q, then of a change from %q", k, was, state(c.Old))
	case c.Old != nil && c.New != nil && c.Old.Meta().UID != c.New.Meta().UID:
		r.t.Errorf("%s: a new object came as a modification", k)
	}
	r.changed = r.changed || !c.Initial
	if c.New == nil {
		delete(r.known, k)
		return
	}
	r.known[k] = state(c.New)
}

// rest lets the server be well for long enough and compares.
func (m *model) rest() {
	s := m.server
	s.setFault(nil)
	for range 10 { // longer than any bound, half-open connections included
		pass(time.Minute)
		s.bookmark()
	}
	pass(time.Minute) // slow subscribers
	want, objects := map[string]string{}, map[string]testObject{}
	s.mu.Lock()
	revision := strconv.FormatInt(s.revision, 10)
	for k, o := range s.objects[m.collection] {
		if m.namespaces == nil || slices.Contains(m.namespaces, o.GetNamespace()) {
			want[k] = string(o.GetUID()) + "@" + o.GetResourceVersion()
			objects[k] = o
		}
	}
	s.mu.Unlock()
	for i, r := range m.replays {
		r.mu.Lock()
		same(m.t, fmt.Sprintf("what subscriber %d was told", i), want, r.known)
		r.mu.Unlock()
	}
	m.compareWith(objects)
	if err := m.WaitRevision(m.t.Context(), m.kind, "", revision); err != nil {
		m.t.Error(err)
	}
	if err := m.replays[0].watch.Err(); err != nil {
		m.t.Errorf("all is well, but: %v", err)
	}
	if m.t.Failed() {
		m.t.FailNow()
	}
}
