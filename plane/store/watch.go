package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

const (
	// watchBuffer is the number of events that wait for a slow reader. The rest waits in the history.
	watchBuffer = 32
	// replayBatch is the number of changes that a watch takes out of the history at once. A watch that is held up by its
	// reader keeps no more of the past alive than these.
	replayBatch = 64
	// lastBookmark is how long before its deadline a watch sends a last bookmark, so that its client can go on from there.
	lastBookmark = 2 * time.Second
)

// watcher is one watch. Its goroutine reads the changes from the history, so it can be held up by its reader without holding
// up anyone and without a queue of its own; the store only tells it that there are some.
type watcher struct {
	resource *resource
	key      string // exact, or a prefix that ends in a slash when opts.Recursive
	opts     storage.ListOptions
	all      bool // no predicate to evaluate
	last     uint64
	initial  []mvcc.Entry[*record]  // to be sent first
	batch    []mvcc.Change[*record] // taken out of the history to be sent next
	results  chan watch.Event
	ctx      context.Context
	cancel   context.CancelFunc

	pending  atomic.Uint64 // revision of the first change for us that the goroutine has not seen; 0: none
	progress atomic.Bool   // a bookmark was asked for
	wake     chan struct{} // capacity 1: pending or progress was set
}

// Watch implements storage.Interface. Its start is fixed when it returns. ListOptions.RecordTimestamps is ignored, as it is
// meant for upstream's watch cache.
func (r *resource) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := r.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	since, err := r.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if r.NewFunc == nil && (opts.ProgressNotify || opts.Predicate.AllowWatchBookmarks) {
		return nil, apierrors.NewInternalError(fmt.Errorf("watch of %s: no bookmarks without a NewFunc", r.GroupResource))
	}
	w := &watcher{
		resource: r,
		key:      key,
		opts:     opts,
		all:      opts.Predicate.Empty(),
		results:  make(chan watch.Event, watchBuffer),
		wake:     make(chan struct{}, 1),
	}
	if err := w.begin(since); err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if err := r.subscribe(w); err != nil {
		w.cancel()
		return nil, err
	}
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// begin takes from the store what w sends first, and sets the revision after which it follows.
func (w *watcher) begin(since uint64) error {
	now := w.resource.store.table.Snapshot()
	switch send := w.opts.SendInitialEvents; {
	case send != nil && *send && since > now.Revision():
		return storage.NewTooLargeResourceVersionError(since, now.Revision(), 1)
	case send != nil && *send, send == nil && since == 0:
		end := mvcc.PrefixEnd(w.key)
		if !w.opts.Recursive {
			end = w.key + "\x00"
		}
		w.initial = slices.AppendSeq(make([]mvcc.Entry[*record], 0, now.Count(w.key, end)), now.Range(w.key, end))
		w.last = now.Revision()
	case since == 0:
		w.last = now.Revision()
	default:
		w.last = since
	}
	return nil
}

// subscribe starts w and has it told of changes from now on.
func (r *resource) subscribe(w *watcher) error {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ctx.Err() != nil {
		return fmt.Errorf("watch of %s: %w", r.GroupResource, storage.ErrStorageNotReady)
	}
	if s.table.Revision() > w.last {
		w.pending.Store(w.last + 1) // of these changes nobody will tell it
	}
	s.byKey[w.key] = append(s.byKey[w.key], w)
	r.watchers = append(r.watchers, w)
	r.watching.Store(int32(len(r.watchers)))
	r.running.Add(1)
	s.watches.Go(w.run)
	return nil
}

func (w *watcher) unsubscribe() {
	r, s := w.resource, w.resource.store
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(x *watcher) bool { return x == w }
	r.watchers = slices.DeleteFunc(r.watchers, is)
	r.watching.Store(int32(len(r.watchers)))
	if rest := slices.DeleteFunc(s.byKey[w.key], is); len(rest) > 0 {
		s.byKey[w.key] = rest
	} else {
		delete(s.byKey, w.key)
	}
	r.running.Done()
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// tell says that there is a change for w. Store.mu is held.
func (w *watcher) tell(revision uint64) {
	if w.pending.CompareAndSwap(0, revision) {
		w.signal()
	}
}

func (w *watcher) requestProgress() {
	w.progress.Store(true)
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run sends events until the watch ends.
func (w *watcher) run() {
	defer w.unsubscribe()
	defer close(w.results)
	defer w.cancel()
	if err := w.follow(); err != nil {
		w.send(watch.Event{Type: watch.Error, Object: statusOf(err)})
	}
}

// follow returns nil when the watch is to end and an error when it cannot go on.
func (w *watcher) follow() error {
	bookmarks := w.newTicker()
	defer bookmarks.stop()
	if err := w.sendInitial(); err != nil || w.ended() {
		return err
	}
	for {
		// Read before pending: of all changes up to here we have been told before.
		announced := w.resource.store.announced.Load()
		if first := w.pending.Swap(0); first != 0 {
			if err := w.replay(first - 1); err != nil || w.ended() {
				return err
			}
			continue
		}
		w.last = max(w.last, announced)
		// A watch from a revision that does not exist yet has no progress to tell of.
		if w.progress.Swap(false) && w.last == announced {
			if err := w.sendBookmark(false); err != nil {
				return err
			}
		}
		select {
		case <-w.ctx.Done():
			return nil
		case <-w.resource.ctx.Done():
			return nil
		case <-w.wake:
		case <-bookmarks.c:
			bookmarks.next()
			w.progress.Store(true)
		}
	}
}

func (w *watcher) ended() bool { return w.ctx.Err() != nil || w.resource.ctx.Err() != nil }

// sendInitial sends the state at the start of the watch and says where it ends, as far as the client asked for that.
func (w *watcher) sendInitial() error {
	for _, e := range w.initial {
		if w.ended() {
			return nil
		}
		event, err := w.event(mvcc.Change[*record]{Key: e.Key, Revision: e.Revision, New: e.Value})
		if err != nil {
			return err
		}
		w.send(event)
	}
	w.initial = nil
	if send := w.opts.SendInitialEvents; send != nil && *send && w.opts.Predicate.AllowWatchBookmarks {
		return w.sendBookmark(true)
	}
	return nil
}

// replay sends the events of the changes after since (and after the last one seen).
func (w *watcher) replay(since uint64) error {
	for since = max(since, w.last); !w.ended(); {
		now := w.resource.store.table.Snapshot()
		if since >= now.Revision() {
			return nil // a watch from the future, or all was seen
		}
		changes, err := now.Changes(since)
		if err != nil {
			return err
		}
		since = now.Revision()
		for c := range changes {
			if !w.concerns(c.Key) {
				continue
			}
			w.batch = append(w.batch, c)
			if len(w.batch) == replayBatch {
				since = c.Revision // the store makes one change per revision
				break
			}
		}
		for _, c := range w.batch {
			event, err := w.event(c)
			if err != nil {
				return err
			}
			w.send(event)
		}
		clear(w.batch) // keeps nothing of the past alive
		w.batch, w.last = w.batch[:0], since
	}
	return nil
}

func (w *watcher) concerns(key string) bool {
	if w.opts.Recursive {
		return strings.HasPrefix(key, w.key)
	}
	return key == w.key
}

// send gives event to the reader and waits for it, unless the watch ends. A zero event is none.
func (w *watcher) send(event watch.Event) {
	if event.Type == "" {
		return
	}
	select {
	case w.results <- event:
	case <-w.ctx.Done():
	case <-w.resource.ctx.Done():
	}
}

// event returns what the change means for this watch: an object that begins or ceases to be selected is added or deleted.
// A zero event is returned when it means nothing.
func (w *watcher) event(c mvcc.Change[*record]) (watch.Event, error) {
	var now, old view
	var err error
	if !c.Deleted {
		if now, err = w.view(c.Key, c.New, c.Revision, false); err != nil {
			return watch.Event{}, err
		}
	}
	if c.OldRevision != 0 && (c.Deleted || !w.all) {
		// The object as it was, with the revision at which it ceased to be so.
		if old, err = w.view(c.Key, c.Old, c.Revision, true); err != nil {
			return watch.Event{}, unreadable(c, err)
		}
	}
	is := !c.Deleted && w.selects(now.look)
	was := c.OldRevision != 0 && (w.all || w.selects(old.look))
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: now.send}, nil
	case is:
		return watch.Event{Type: watch.Added, Object: now.send}, nil
	case was:
		return watch.Event{Type: watch.Deleted, Object: old.send}, nil
	}
	return watch.Event{}, nil
}

// view is an object to look at and not to change, and what to send of it.
type view struct{ look, send runtime.Object }

// view decodes an object, for this watch alone or together with others.
func (w *watcher) view(key string, rec *record, revision uint64, old bool) (view, error) {
	r := w.resource
	if w.initial != nil || r.watching.Load() < shareFrom {
		obj, err := r.decode(w.ctx, key, rec.data, revision, nil)
		return view{obj, obj}, err
	}
	s := r.recent.find(rec, revision, old)
	s.decode.Do(func() { s.object, s.err = r.decode(r.ctx, key, rec.data, revision, nil) })
	return view{s.object, s}, s.err
}

// unreadable is the error for a change whose old object cannot be decoded. A deletion of such an object is what its owner
// wants, so the reader is told that it is one.
func unreadable(c mvcc.Change[*record], err error) error {
	if !c.Deleted {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: fmt.Sprintf("saw a DELETED event, but object data is corrupt: %s: %v", c.Key, err),
	}}
}

func (w *watcher) selects(obj runtime.Object) bool {
	if w.all {
		return true
	}
	ok, err := w.opts.Predicate.Matches(obj)
	return err == nil && ok
}

// sendBookmark says that everything up to the last revision seen was sent.
func (w *watcher) sendBookmark(endsInitialEvents bool) error {
	obj := w.resource.NewFunc()
	if err := w.resource.versioner.UpdateObject(obj, w.last); err != nil {
		return err
	}
	if endsInitialEvents {
		if err := storage.AnnotateInitialEventsEndBookmark(obj); err != nil {
			return err
		}
	}
	w.send(watch.Event{Type: watch.Bookmark, Object: obj})
	return nil
}

// ticker tells when a bookmark is due: each interval, and shortly before the watch's deadline.
type ticker struct {
	c        <-chan time.Time // nil when no bookmarks are wanted
	timer    *time.Timer
	interval time.Duration
	last     time.Time // when the last one before the deadline is due; zero: no deadline
}

func (w *watcher) newTicker() *ticker {
	if !w.opts.ProgressNotify && !w.opts.Predicate.AllowWatchBookmarks {
		return &ticker{}
	}
	t := &ticker{interval: w.resource.store.bookmarkInterval}
	if deadline, ok := w.ctx.Deadline(); ok {
		t.last = deadline.Add(-lastBookmark)
	}
	t.timer = time.NewTimer(t.wait())
	t.c = t.timer.C
	return t
}

func (t *ticker) wait() time.Duration {
	if left := time.Until(t.last); left > 0 {
		return min(left, t.interval)
	}
	return t.interval
}

func (t *ticker) next() { t.timer.Reset(t.wait()) }

func (t *ticker) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// statusOf returns the object of an error event.
func statusOf(err error) *metav1.Status {
	if errors.Is(err, mvcc.ErrCompacted) {
		err = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return &s
}
