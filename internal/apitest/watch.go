package apitest

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// bookmarkPeriod is the time between two bookmarks of a quiet watch.
const bookmarkPeriod = time.Minute

// watch opens a watch. s.mu is held.
func (s *Server) watch(c *call) *http.Response {
	query := c.http.URL.Query()
	w := &watchBody{s: s, call: c, ctx: c.http.Context(), drops: s.drops, closed: make(chan struct{})}
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil {
		w.end = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	initial := query.Get("sendInitialEvents") == "true"
	rv := query.Get("resourceVersion")
	switch {
	case initial || rv == "" || rv == "0":
		for _, o := range s.list(c.kind, c.Namespace, c.matches) {
			w.frame("ADDED", c.view(o))
		}
		w.revision = s.revision
		if initial {
			w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	default:
		from, err := strconv.ParseInt(rv, 10, 64)
		if err != nil {
			return failure(c.http, apierrors.NewBadRequest(err.Error()))
		}
		if from < s.oldest {
			return failure(c.http, apierrors.NewResourceExpired("too old resource version"))
		}
		w.revision = from
	}
	return response(c.http, http.StatusOK, w)
}

// watchBody is the body of a watch: it reads the server's history as it grows,
// in its reader's goroutine.
type watchBody struct {
	s        *Server
	call     *call
	ctx      context.Context
	revision int64 // up to which it was read
	drops    int
	end      time.Time // zero: none
	pending  []byte
	closed   chan struct{}
}

// Read implements io.Reader. It is called by one goroutine.
func (w *watchBody) Read(p []byte) (int, error) {
	for len(w.pending) == 0 {
		changed, ended := w.advance()
		switch {
		case len(w.pending) > 0:
		case ended:
			return 0, io.EOF
		default:
			if err := w.wait(changed); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, w.pending)
	w.pending = w.pending[n:]
	return n, nil
}

// wait waits until there may be something to read.
func (w *watchBody) wait(changed <-chan struct{}) error {
	timer := time.NewTimer(bookmarkPeriod)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		w.bookmark(nil)
		return nil
	case <-w.closed:
		return http.ErrBodyReadAfterClose
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// Close implements io.Closer.
func (w *watchBody) Close() error {
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
	return nil
}

// advance reads the history that is new. It returns what tells of more, and
// whether the watch was ended by the server.
func (w *watchBody) advance() (<-chan struct{}, bool) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.drops != w.s.drops || !w.end.IsZero() && !time.Now().Before(w.end) {
		return nil, true
	}
	first, _ := slices.BinarySearchFunc(w.s.history, w.revision+1, func(c change, revision int64) int {
		return cmp.Compare(c.revision, revision)
	})
	for _, c := range w.s.history[first:] {
		w.show(c)
	}
	w.revision = max(w.revision, w.s.revision)
	return w.s.changed, false
}

// show adds the event that a change is for this watch, by what its selectors
// say of the states before and after.
func (w *watchBody) show(c change) {
	if c.resource != w.call.kind.gvr() {
		return
	}
	before, after := w.sees(c.old), w.sees(c.now)
	switch {
	case after && before:
		w.frame("MODIFIED", w.call.view(c.now))
	case after:
		w.frame("ADDED", w.call.view(c.now))
	case before:
		w.frame("DELETED", w.call.view(at(c.old, c.revision)))
	}
}

// at returns an object at another revision: one that leaves a selection is shown as it was, at the
// revision at which it left.
func at(o object, revision int64) object {
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(o)}
	u.SetResourceVersion(strconv.FormatInt(revision, 10))
	return u.Object
}

func (w *watchBody) sees(o object) bool {
	if o == nil || !w.call.matches(o) {
		return false
	}
	u := unstructured.Unstructured{Object: o}
	return w.call.Namespace == "" || u.GetNamespace() == w.call.Namespace
}

// bookmark adds a bookmark at the present revision.
func (w *watchBody) bookmark(annotations map[string]string) {
	u := unstructured.Unstructured{Object: object{}}
	u.SetGroupVersionKind(w.call.kind.GroupVersionKind)
	u.SetResourceVersion(strconv.FormatInt(w.revision, 10))
	u.SetAnnotations(annotations)
	w.frame("BOOKMARK", w.call.view(u.Object))
}

func (w *watchBody) frame(event string, o object) {
	data, err := json.Marshal(object{"type": event, "object": o})
	if err != nil {
		panic(err)
	}
	w.pending = append(append(w.pending, data...), '\n')
}
