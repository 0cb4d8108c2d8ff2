package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/filter"
)

// expect is Expect with an answer in JSON.
func (h *harness) expect(o testObject) {
	data, err := json.Marshal(o)
	must(err)
	h.Expect(podKind, "application/json", data)
}

// away keeps the watch away while something happens, and lets it list anew then.
func (h *harness) away(happen func()) {
	h.server.setFault(func(*http.Request) *http.Response { return forbid(nil) })
	h.server.drop(errors.New("broken"))
	synctest.Wait()
	happen()
	h.server.compact()
	h.server.setFault(nil)
	pass(5 * time.Minute)
}

// An object that was expected and that no watch showed is told as gone by the first listing that must have it.
func TestExpectedIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil)) // 101
		h := start(t, s, Config{})
		w, r := h.watchKind(t, podKind)
		synced(t, w)
		_ = r.take()
		var old *corev1.Pod
		w, err := h.Watch(podKind, func(c filter.Change) {
			if c.New == nil {
				o, err := c.Old.Object()
				must(err)
				old = o.(*corev1.Pod)
			}
		})
		must(err)
		synced(t, w)

		h.away(func() {
			h.expect(s.put(pods, pod("a", "brief", map[string]string{"app": "x"}))) // 102
			h.expect(s.put(pods, pod("a", "stays", nil)))                           // 103
			h.expect(s.put(pods, pod("a", "reborn", nil)))                          // 104
			s.delete(pods, "a/brief")
			s.delete(pods, "a/reborn")
			s.put(pods, pod("a", "reborn", nil)) // 107
		})
		same(t, "told", []string{"deleted a/brief@102", "deleted a/reborn@104", "added a/reborn@107", "added a/stays@103"}, r.take())
		if old == nil || old.Spec.NodeName != "node-reborn" && old.Labels["app"] != "x" {
			t.Errorf("the object that went is %v", old)
		}
		same(t, "left", 0, len(mustStore(h, podKind).expected))

		s.delete(pods, "a/stays")
		h.away(func() {})
		same(t, "told once", []string{"deleted a/stays@103"}, r.take())
	})
}

// Of two objects that had one name, both ends are told, unless the second stayed. Answers may come in any order.
func TestExpectedFollowEachOther(t *testing.T) {
	for _, test := range []struct {
		why   string
		order []int
		stays bool
		want  []string
	}{
		{"both go", []int{0, 1}, false, []string{"deleted a/web@102", "deleted a/web@104"}},
		{"the answers crossed", []int{1, 0}, false, []string{"deleted a/web@102", "deleted a/web@104"}},
		{"the second stays", []int{0, 1}, true, []string{"deleted a/web@102", "added a/web@104"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put(pods, pod("a", "x", nil)) // 101
				h := start(t, s, Config{})
				w, r := h.watchKind(t, podKind)
				synced(t, w)
				_ = r.take()
				h.away(func() {
					var answers []testObject
					answers = append(answers, s.put(pods, pod("a", "web", nil))) // 102
					s.delete(pods, "a/web")
					answers = append(answers, s.put(pods, pod("a", "web", nil))) // 104
					for _, i := range test.order {
						h.expect(answers[i])
						synctest.Wait()
					}
					if !test.stays {
						s.delete(pods, "a/web")
					}
				})
				same(t, "told", test.want, r.take())
			})
		})
	}
}

// The watch may have been faster than the answer to who expects the object.
func TestExpectedIsGoneAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		h := start(t, s, Config{})
		w, r := h.watchKind(t, podKind)
		synced(t, w)
		o := s.put(pods, pod("a", "x", nil))
		s.delete(pods, "a/x")
		synctest.Wait()
		_ = r.take()
		h.expect(o)
		synctest.Wait()
		same(t, "told", []string{"deleted a/x@101"}, r.take())
	})
}

// What came and went while a subscriber was busy is told if somebody counted on it, whenever that was learnt.
func TestExpectedEndIsNotMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		h := start(t, s, Config{})
		r, gate := &recorder{}, make(chan struct{})
		w, err := h.Watch(podKind, func(c filter.Change) {
			<-gate
			r.record(c)
		})
		must(err)
		synced(t, w)
		s.put(pods, pod("a", "first", nil)) // 101: it hangs in this
		synctest.Wait()
		before := s.put(pods, pod("a", "before", nil))
		h.expect(before) // it is expected, then seen
		synctest.Wait()
		seen := s.put(pods, pod("a", "seen", nil))
		synctest.Wait()
		h.expect(seen) // it is seen, then expected
		s.put(pods, pod("a", "seen", nil))
		s.delete(pods, "a/seen")
		s.delete(pods, "a/before")
		s.put(pods, pod("a", "others", nil))
		s.delete(pods, "a/others")
		s.put(pods, pod("a", "seen", nil)) // 109
		synctest.Wait()
		close(gate)
		synctest.Wait()
		same(t, "told", []string{"added a/first@101", "deleted a/before@102", "deleted a/seen@104", "added a/seen@109"}, r.take())
	})
}

// No end is invented: not by a listing that is too old, nor of what lies outside the scope, nor for a kind nobody watches.
func TestExpectedIsNotInvented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(pods, pod("a", "x", nil)) // 101
		h := start(t, s, Config{Default: Options{Namespaces: []string{"a", "b"}}})
		later := pod("a", "later", nil)
		later.UID, later.ResourceVersion = "later", "110"
		h.expect(later) // nobody watches
		w, r := h.watchKind(t, podKind)
		synced(t, w)
		_ = r.take()
		h.expect(later)
		elsewhere := pod("c", "x", nil)
		elsewhere.UID, elsewhere.ResourceVersion = "elsewhere", "101"
		h.expect(elsewhere)
		unordered := pod("a", "unordered", nil)
		unordered.UID, unordered.ResourceVersion = "unordered", "x"
		h.expect(unordered)
		left := pod("b", "left", nil)
		left.UID, left.ResourceVersion = "left", "110"
		h.expect(left)
		h.away(func() { s.put(pods, pod("a", "y", nil)) })
		same(t, "after a listing", []string{"added a/y@102"}, r.take())
		must(h.SetNamespaces(podKind, "a"))
		pass(time.Second)
		for range 10 {
			s.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		}
		s.bookmark()
		synctest.Wait()
		h.away(func() {})
		same(t, "after the watch passed the revision", 0, len(r.take()))
		st := mustStore(h, podKind)
		st.mu.RLock()
		defer st.mu.RUnlock()
		same(t, "expected yet", 1, len(st.expected)) // what cannot be compared
	})
}

func TestExpectedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		h := follow(t, s, Config{}, podKind)
		st := mustStore(h, podKind)
		for n := range maxExpected + 10 {
			name := fmt.Sprint(n)
			st.expect(header{namespace: "a", name: name}, &expectation{uid: name, version: "1000"})
		}
		same(t, "expected", maxExpected, len(st.expected))
		sub := newSubscriber(st.form, func(filter.Change) {})
		for n := range maxExpected + 10 {
			o := &object{key: fmt.Sprint(n), expected: true}
			sub.enqueue(nil, o)
			sub.enqueue(o, nil)
			sub.enqueueEnd(fmt.Sprint("b", n), &filter.State{})
		}
		if len(sub.pending) != maxExpected || sub.ends != maxExpected {
			t.Errorf("%d changes and %d ends wait", len(sub.pending), sub.ends)
		}
		for sub.next() != nil {
		}
		same(t, "ends that wait", 0, sub.ends)
	})
}

// A server that was restored from a backup does not have what was made since.
func TestExpectedIsLostByRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		h := start(t, s, Config{})
		w, r := h.watchKind(t, podKind)
		synced(t, w)
		s.put(pods, pod("a", "x", nil)) // 101
		synctest.Wait()
		_ = r.take()
		lost := pod("a", "lost", nil)
		lost.UID, lost.ResourceVersion = "lost", "102"
		h.expect(lost)
		s.mu.Lock()
		s.revision, s.objects[pods], s.history = 50, nil, nil
		s.floor = 1000 // nobody goes on from where it was
		s.mu.Unlock()
		s.drop(nil)
		pass(2 * staleBound)
		same(t, "told", []string{"deleted a/lost@102", "deleted a/x@101"}, r.take())
	})
}
