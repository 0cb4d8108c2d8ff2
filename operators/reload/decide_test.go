package reload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var testKey = newSecretKey([]byte("a key for the tests"))

func cm(name string) source { return source{kindConfigMap, name} }

// world is a workload that follows sources, and what becomes of it over any number of restarts: nothing is kept but what
// is written on the workload.
type world struct {
	t       *testing.T
	policy  policy
	content map[source]string // of the sources that exist
	follows map[source]bool   // true: the template refers to it, and all references are optional
	version int

	state, stamp string // on the workload
	rolls        int
	changes      []change // of the last look
}

func newWorld(t *testing.T, names ...string) *world {
	w := &world{t: t, content: map[source]string{}, follows: map[source]bool{}}
	for _, name := range names {
		w.follows[cm(name)] = false
		w.content[cm(name)] = "first"
	}
	return w
}

// look is what a reconcile does, in whatever process.
func (w *world) look() {
	w.t.Helper()
	var before *memory
	if w.state != "" {
		var err error
		if before, err = parseMemory(w.state); err != nil {
			w.t.Fatal(err)
		}
	}
	seen := map[source]observed{}
	for s, optional := range w.follows {
		o := observed{optional: optional}
		if content, ok := w.content[s]; ok {
			w.version++
			o.entry = entry{testKey.of("default", s, content), strconv.Itoa(w.version)}
		}
		seen[s] = o
	}
	d := decide(before, seen, &w.policy)
	w.changes = d.changes
	if before != nil && len(d.changes) == 0 && maps.Equal(before.Sources, d.next) {
		return
	}
	next := before.clone()
	next.Key, next.Sources = testKey.id, d.next
	if w.state = next.String(); len(d.changes) > 0 {
		stamp := next.stamp(testKey, w.stamp)
		if stamp == w.stamp {
			w.t.Errorf("rolled, but the stamp stays %q: no Pod notices", stamp)
		}
		w.stamp = stamp
		w.rolls++
	}
}

// expect looks twice, as after a restart, and checks how often it rolled in all, and that the second look wrote nothing.
func (w *world) expect(rolls int, why string) {
	w.t.Helper()
	w.look()
	state, stamp := w.state, w.stamp
	w.look()
	if w.rolls != rolls {
		w.t.Fatalf("%s: rolled %d times in all, want %d", why, w.rolls, rolls)
	}
	if w.state != state || w.stamp != stamp {
		w.t.Errorf("%s: the second look wrote, too", why)
	}
}

func TestFirstSightIsTheBaseline(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.expect(0, "first sight")
	w.content[cm("a")] = "second"
	w.expect(1, "a change")
	w.follows[cm("c")], w.content[cm("c")] = false, "new"
	w.expect(1, "a source that is new to the workload")
	w.content[cm("a")], w.content[cm("b")], w.content[cm("c")] = "third", "third", "third"
	w.expect(2, "three changes at once")
	if want := "ConfigMap a was changed"; !strings.HasPrefix(describe([]change{{cm("a"), changed}}), want) {
		t.Errorf("describe does not begin with %q", want)
	}
}

func TestReloadFault1SourcesDoNotOverwriteEachOther(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.expect(0, "first sight")
	w.content[cm("a")] = "second"
	w.expect(1, "a change of a")
	for range 5 {
		w.expect(1, "a restart")
	}
	w.content[cm("b")] = "second"
	w.expect(2, "a change of b")
}

func TestReloadFault5InstallingRollsNothing(t *testing.T) {
	w := newWorld(t, "a")
	w.stamp = "of a former installation"
	w.expect(0, "first sight")
}

func TestReloadFault8DeletionIsHandled(t *testing.T) {
	w := newWorld(t, "a")
	w.expect(0, "first sight")
	delete(w.content, cm("a"))
	w.expect(0, "a deletion, for nothing better is there")
	w.content[cm("a")] = "first"
	w.expect(0, "the same content is back")
	delete(w.content, cm("a"))
	w.expect(0, "a deletion")
	w.content[cm("a")] = "second"
	w.expect(1, "other content is back")

	w.policy.onDelete = true
	delete(w.content, cm("a"))
	w.expect(2, "a deletion that shall roll")
	w.content[cm("a")] = "second"
	w.expect(2, "what is required came back: the Pods waited for it")
	w.policy.onCreate = true
	delete(w.content, cm("a"))
	w.expect(3, "a deletion that shall roll")
	w.content[cm("a")] = "second"
	w.expect(4, "a creation that shall roll")
}

func TestReloadFault9SimilarNamesAreDifferent(t *testing.T) {
	w := newWorld(t, "a-b", "a.b")
	w.expect(0, "first sight")
	for i, name := range []string{"a-b", "a.b"} {
		w.content[cm(name)] = "second"
		w.look()
		if len(w.changes) != 1 || w.changes[0].source.name != name {
			t.Errorf("a change of %s is seen as %v", name, w.changes)
		}
		w.expect(i+1, "a change of "+name)
	}
}

// With reload on creation and a listing after each restart, Reloader restarted every workload when the leader changed.
func TestReloader1089LeaderChangeRollsNothing(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.policy.onCreate, w.policy.onDelete = true, true
	w.expect(0, "first sight")
	for range 10 {
		w.expect(0, "another leader")
	}
}

func TestReloader481ChangeWithoutLeaderIsNotLost(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.expect(0, "first sight")
	w.content[cm("a")] = "changed while nobody looked"
	w.content[cm("a")] = "and again"
	w.expect(1, "what changed before a leader was there")
}

func TestReloaderMemoryOutlivesDeletionAndCreation(t *testing.T) {
	w := newWorld(t, "a")
	w.expect(0, "first sight")
	for range 3 {
		delete(w.content, cm("a"))
		w.look()
		w.content[cm("a")] = "first"
		w.expect(0, "deleted and created again by a deployment tool")
	}
}

func TestReloaderAllSourcesAreRemembered(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.expect(0, "first sight")
	w.content[cm("a")] = "second"
	w.expect(1, "a change of a")
	w.content[cm("b")] = "second"
	w.expect(2, "a change of b")
	w.content[cm("a")] = "first"
	w.expect(3, "a is what it was, which its Pods are not")
	w.content[cm("b")] = "first"
	w.expect(4, "b, too")
}

func TestOptionalSourceThatComesIntoBeing(t *testing.T) {
	w := newWorld(t)
	w.follows[cm("required")], w.follows[cm("optional")] = false, true
	w.expect(0, "first sight, neither is there")
	w.content[cm("required")] = "first"
	w.expect(0, "Pods could not run without it")
	w.content[cm("optional")] = "first"
	w.expect(1, "Pods run without it")
}

func TestSourceThatIsFollowedNoMore(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.expect(0, "first sight")
	delete(w.follows, cm("b"))
	w.content[cm("b")] = "second"
	w.expect(0, "b is not followed")
	w.follows[cm("b")] = false
	w.expect(0, "b is followed again, from now on")
	w.content[cm("b")] = "third"
	w.expect(1, "b changed")
}

func TestAppearedSourceOfAnExpression(t *testing.T) {
	before := &memory{Sources: map[source]entry{}}
	seen := map[source]observed{cm("a"): {entry: entry{"x", "1"}, appeared: true}}
	if d := decide(before, seen, &policy{onCreate: true}); len(d.changes) != 1 || d.changes[0].reason != created {
		t.Errorf("asked to roll on creation: %v", d.changes)
	}
	if d := decide(before, seen, &policy{}); len(d.changes) != 0 {
		t.Errorf("not asked: %v", d.changes)
	}
}

func TestTooManySources(t *testing.T) {
	seen := map[source]observed{}
	for i := range maxSources + 20 {
		seen[cm(fmt.Sprintf("%04d-%s", i, strings.Repeat("n", 240)))] = observed{entry: entry{testKey.hash(strconv.Itoa(i)), "18446744073709551615"}}
	}
	gone := cm("0000-gone")
	seen[gone] = observed{}
	d := decide(nil, seen, &policy{})
	if d.left != 21 || len(d.next) != maxSources {
		t.Errorf("%d are followed and %d are left", len(d.next), d.left)
	}
	if _, ok := d.next[gone]; ok {
		t.Error("one that does not exist takes the place of one that does")
	}
	m := &memory{Key: testKey.id, Since: metav1.Now(), Sources: d.next}
	if size := len(m.String()); size > 200<<10 {
		t.Errorf("the annotation has %d bytes, too many", size)
	}
	again := decide(m, seen, &policy{})
	if len(again.changes) != 0 || !maps.Equal(again.next, d.next) {
		t.Error("the second look differs from the first")
	}
}

func TestMemory(t *testing.T) {
	m := &memory{
		Key: testKey.id, Since: metav1.NewTime(time.Unix(1, 0).UTC()), Rolled: &metav1.Time{Time: time.Unix(2, 0).UTC()},
		Sources: map[source]entry{cm("b"): {hash: "x", version: "7"}, cm("a"): {}, {kindSecret, "a"}: {hash: "y"}},
	}
	const want = `{"key":"` + "KEY" + `","since":"1970-01-01T00:00:01Z","rolled":"1970-01-01T00:00:02Z",` +
		`"sources":{"ConfigMap/a":"-","ConfigMap/b":"x@7","Secret/a":"y"}}`
	if got := strings.Replace(m.String(), testKey.id, "KEY", 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	read, err := parseMemory(m.String())
	if err != nil || read.String() != m.String() || !maps.Equal(read.Sources, m.Sources) {
		t.Errorf("read back as %v, %v", read, err)
	}
	for _, bad := range []string{"", "{", `{"sources":{"Pod/a":"x"}}`, `{"sources":{"ConfigMap/":"x"}}`, `{"sources":{"ConfigMap/a":""}}`} {
		if m, err := parseMemory(bad); err == nil {
			t.Errorf("%s is read as %v", bad, m)
		}
	}
	if s := m.stamp(testKey, ""); s != m.stamp(testKey, "another") || s == m.stamp(testKey, s) {
		t.Error("the stamp depends on more than the sources, or is the present one")
	}
}

func TestDescribeIsBounded(t *testing.T) {
	var changes []change
	for i := range 30 {
		changes = append(changes, change{cm(strconv.Itoa(i)), changed})
	}
	if words := describe(changes); !strings.HasSuffix(words, "ConfigMap 9 was changed, and 20 more") {
		t.Error(words)
	}
	if !slices.IsSortedFunc([]source{{kindConfigMap, "b"}, {kindSecret, "a"}}, source.compare) {
		t.Error("sources are not ordered by kind, then by name")
	}
}
