package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// scope follows one kind in one namespace (or in all: ""). It is one goroutine:
//
//  1. list, as the first part of a watch (WatchList) or, where the server does not offer that, page by page;
//  2. watch from the listing's revision, and again from the last revision seen, whenever the watch ends;
//  3. list again when the server no longer has that revision.
//
// Every failure is shown, waited out and tried again, for ever.
type scope struct {
	cache     *Cache
	store     *store
	namespace string
	began     time.Time
	logger    *slog.Logger

	// Guarded by store.mu, written by the scope's goroutine only.
	version string // every change up to this revision is in the store
	listed  bool   // the first listing is stored
	left    bool   // the namespace is not covered any more: nothing that comes counts
	err     error  // what the last round failed with; nil while a watch is open

	stop context.CancelFunc

	// Of the scope's goroutine.
	current    bool // version can be watched from
	streaming  bool // list by WatchList
	broken     int  // listings by WatchList in a row that ended early
	expired    bool // the last round ended because the revision was too old
	staleSince time.Time
	backoff    backoff
}

const (
	// staleBound is how long listings older than what was seen are refused. A server that is still behind then
	// was restored from a backup: its older state is the truth.
	staleBound = 5 * time.Minute
	// streamTries is after how many WatchLists in a row that broke off the listing is done by pages.
	streamTries = 3
	// healthyAfter is how long a watch must have lasted for the back-off to start anew.
	healthyAfter = time.Minute
	// shortRound is how long a round must last for its good end, or its first expiry, to be followed by the
	// next without a wait.
	shortRound = time.Second
)

func newScope(c *Cache, s *store, namespace string) *scope {
	return &scope{
		cache:     c,
		store:     s,
		namespace: namespace,
		began:     time.Now(),
		streaming: true,
		logger:    c.logger.With("kind", s.form.gvk.GroupKind().String(), "namespace", namespace),
	}
}

// advance moves the revision, never back, and reports whether it moved; store.mu is held.
func (sc *scope) advance(version string) bool {
	if version == "" || version == sc.version || newer(sc.version, version) {
		return false
	}
	sc.version = version
	return true
}

func (sc *scope) run(ctx context.Context) {
	for ctx.Err() == nil {
		started := time.Now()
		err := sc.round(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) >= healthyAfter {
			sc.backoff = backoff{}
		}
		sc.cache.sleep(ctx, sc.plan(err, time.Since(started)))
	}
}

// round lists if need be and watches once. It returns nil when the server ended the watch in good order.
func (sc *scope) round(ctx context.Context) error {
	mapping, err := sc.cache.mapping(sc.store.form.gvk)
	if err != nil {
		return err
	}
	path := resourcePath(mapping.Resource, sc.namespace)
	if sc.current {
		return sc.watch(ctx, path)
	}
	if sc.streaming {
		return sc.streamListing(ctx, path)
	}
	if err := sc.listPages(ctx, path); err != nil {
		return err
	}
	return sc.watch(ctx, path)
}

// plan draws the conclusions from how a round ended and says how long to wait before the next.
func (sc *scope) plan(err error, lasted time.Duration) time.Duration {
	expiredBefore := sc.expired
	sc.expired = false
	if err == nil {
		if lasted >= shortRound {
			return 0
		}
		return sc.backoff.next(sc.cache.random())
	}
	sc.fail(err)
	switch {
	case errors.Is(err, errNoStreaming):
		sc.streaming = false
		return 0
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		sc.current, sc.expired = false, true // listing anew helps; if it does not at once, wait
		if !expiredBefore || lasted >= shortRound {
			return 0
		}
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		// The kind is not, or no longer, installed. What the store holds stays until a listing shows what
		// became of it.
		sc.current = false
		sc.cache.resetMapper()
	case isTooLarge(err) && sc.stale():
		sc.current = false
	}
	delay := sc.backoff.next(sc.cache.random())
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(time.Duration(seconds)*time.Second, delay)
	}
	return delay
}

// fail shows what a round failed with.
func (sc *scope) fail(err error) {
	sc.store.stats.failed(err)
	level := slog.LevelWarn
	if errors.Is(err, errNoStreaming) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		level = slog.LevelInfo
	} else if sc.err != nil && sc.err.Error() == err.Error() {
		level = slog.LevelDebug // said already
	}
	sc.logger.Log(context.Background(), level, "watch failed, it will be tried again", "error", err)
	sc.store.setErr(sc, err)
}

// healthy takes note that the server answers.
func (sc *scope) healthy() {
	if sc.err != nil {
		sc.logger.Info("watch works again")
	}
	sc.store.setErr(sc, nil)
}

// stale reports whether the server has been behind for so long that it must have been restored.
func (sc *scope) stale() bool {
	if sc.staleSince.IsZero() {
		sc.staleSince = time.Now()
	}
	return time.Since(sc.staleSince) >= staleBound
}

func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// errNoStreaming says that the server does not answer a WatchList as it should.
var errNoStreaming = errors.New("the server does not stream listings (WatchList), using pages")

// query has the parameters that every request of the scope has.
func (sc *scope) query() url.Values {
	q := url.Values{}
	o := sc.store.options
	if o.Labels != nil && !o.Labels.Empty() {
		q.Set("labelSelector", o.Labels.String())
	}
	if o.Fields != nil && !o.Fields.Empty() {
		q.Set("fieldSelector", o.Fields.String())
	}
	return q
}

func (sc *scope) watchQuery() url.Values {
	q := sc.query()
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	timeout := minWatch + time.Duration(sc.cache.random()*float64(maxWatch-minWatch))
	q.Set("timeoutSeconds", strconv.Itoa(int(timeout.Seconds())))
	return q
}

// listPages lists with LIST.
func (sc *scope) listPages(ctx context.Context, path string) error {
	listed := map[string]*object{}
	version, next, limit := "", "", pageSize
	for {
		q := sc.query()
		if limit > 0 {
			q.Set("limit", strconv.Itoa(limit))
		}
		if next != "" {
			q.Set("continue", next)
		}
		var err error
		version, next, err = sc.listPage(ctx, path, q, listed)
		if next == "" && err == nil {
			return sc.accept(listed, version)
		}
		if err != nil {
			if limit > 0 && apierrors.IsResourceExpired(err) && q.Has("continue") {
				clear(listed) // the pages took longer than the server keeps a revision: all at once, then
				next, limit = "", 0
				continue
			}
			return fmt.Errorf("list %s: %w", path, err)
		}
	}
}

func (sc *scope) listPage(ctx context.Context, path string, q url.Values, listed map[string]*object) (version, next string, err error) {
	r, err := sc.cache.api.get(ctx, path, q, sc.store.form.accept(true))
	if err != nil {
		return "", "", err
	}
	defer r.close()
	r.within(stallBound, "further byte of a listing")
	data, err := r.all()
	if err != nil {
		return "", "", err
	}
	version, next, items, err := r.encoding.list(stringOf(data))
	if err != nil {
		return "", "", err
	}
	for _, item := range items {
		o, err := sc.store.admit(r.encoding, item)
		if err != nil {
			return "", "", err
		}
		listed[o.key] = o
	}
	return strings.Clone(version), strings.Clone(next), nil
}

// streamListing lists with WatchList, and goes on with the same request as a watch.
func (sc *scope) streamListing(ctx context.Context, path string) error {
	q := sc.watchQuery()
	q.Set("sendInitialEvents", "true")
	q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	r, err := sc.cache.api.get(ctx, path, q, sc.store.form.accept(false))
	if err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
			err = fmt.Errorf("%w: %w", errNoStreaming, err)
		}
		return fmt.Errorf("list %s: %w", path, err)
	}
	defer r.close()
	r.within(initialBound, "end of the initial events")
	if err := sc.initialEvents(r); err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	return sc.events(r, path)
}

// initialEvents collects events until the bookmark that ends the listing, and stores them.
func (sc *scope) initialEvents(r *response) error {
	listed := map[string]*object{}
	for {
		ev, err := r.event()
		if err != nil {
			return sc.brokeOff(err)
		}
		switch ev.typ {
		case watch.Bookmark:
			metadata, err := r.encoding.metadata(ev.object)
			if err != nil {
				return err
			}
			if !r.encoding.initialEventsEnd(metadata) {
				continue
			}
			h, err := r.encoding.header(metadata)
			if err != nil {
				return err
			}
			sc.broken = 0
			return sc.accept(listed, strings.Clone(h.resourceVersion))
		case watch.Deleted:
			h, err := r.encoding.headerOf(ev.object)
			if err != nil {
				return err
			}
			delete(listed, h.key())
		case watch.Added, watch.Modified:
			o, err := sc.store.admit(r.encoding, ev.object)
			if err != nil {
				return err
			}
			listed[o.key] = o
		default:
			return unknownEvent(ev)
		}
	}
}

// brokeOff judges why a WatchList ended early: servers and proxies that do not know it go on for ever without
// ending the listing, or end the request instead.
func (sc *scope) brokeOff(err error) error {
	sc.broken++
	var silence *silenceError
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &silence), err == io.EOF, sc.broken >= streamTries && !errors.As(err, &status):
		return fmt.Errorf("%w: %w", errNoStreaming, err)
	}
	return err
}

// accept makes a listing the truth, unless it is older than what was seen.
func (sc *scope) accept(listed map[string]*object, version string) error {
	if newer(sc.version, version) {
		if !sc.stale() {
			return fmt.Errorf("the server's listing is of revision %s, but revision %s was seen: it is behind", version, sc.version)
		}
		sc.logger.Error("taking an older listing for the truth: the server seems to have been restored from a backup",
			"seen", sc.version, "listed", version)
		sc.store.rewind(sc)
	}
	if err := sc.store.form.packer.packAll(listed); err != nil {
		return err
	}
	sc.staleSince = time.Time{}
	sc.store.stats.listed()
	sc.store.replace(sc, listed, version)
	sc.current = true
	sc.healthy()
	sc.store.markListed(sc) // last: whoever waits for it finds everything in order
	return nil
}

// watch follows the changes since the last revision.
func (sc *scope) watch(ctx context.Context, path string) error {
	q := sc.watchQuery()
	q.Set("resourceVersion", sc.version)
	r, err := sc.cache.api.get(ctx, path, q, sc.store.form.accept(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer r.close()
	return sc.events(r, path)
}

// events applies the events of a watch until it ends.
func (sc *scope) events(r *response, path string) error {
	r.within(silenceBound, "watch event or bookmark")
	sc.healthy()
	for {
		ev, err := r.event()
		var silence *silenceError
		switch {
		case err == nil:
			err = sc.event(r.encoding, ev)
		case err == io.EOF:
			return nil
		case errors.As(err, &silence):
			// Half open, or a server without bookmarks where nothing happens: only a new watch tells.
			sc.store.stats.failed(err)
			sc.logger.Debug("watching anew", "reason", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
}

func (sc *scope) event(enc encoding, ev event) error {
	switch ev.typ {
	case watch.Added, watch.Modified:
		now, err := sc.store.admit(enc, ev.object)
		if err != nil {
			return err
		}
		if old := sc.store.get(now.key); old != nil && old.uid == now.uid && !changed(old.version, now.version) {
			return nil // told before
		}
		sc.store.apply(sc, []write{{key: now.key, now: now}}, now.version)
	case watch.Deleted:
		h, err := enc.headerOf(ev.object)
		if err != nil {
			return err
		}
		var writes []write
		if old := sc.store.get(h.key()); old != nil && old.uid == h.uid {
			writes = []write{{key: old.key}}
		}
		sc.store.apply(sc, writes, strings.Clone(h.resourceVersion))
	case watch.Bookmark:
		h, err := enc.headerOf(ev.object)
		if err != nil {
			return err
		}
		sc.store.bookmark(sc, strings.Clone(h.resourceVersion))
	default:
		return unknownEvent(ev)
	}
	return nil
}

func unknownEvent(ev event) error {
	return fmt.Errorf("the server sent a watch event of type %q", ev.typ)
}

// changed reports whether a state of revision now could be newer than one of revision old. Revisions that are
// no numbers always could.
func changed(old, now string) bool {
	return old == "" || !(old == now || newer(old, now))
}

// event is one frame of a watch. Its object is valid until the next is read.
type event struct {
	typ    watch.EventType
	object string
}

// event reads one event. A status that the server sends as one becomes the error.
func (r *response) event() (event, error) {
	frame, err := r.next()
	if err != nil {
		return event{}, err
	}
	typ, object, err := r.encoding.event(frame)
	if err != nil {
		return event{}, err
	}
	ev := event{typ: watch.EventType(typ), object: object}
	if ev.typ != watch.Error {
		return ev, nil
	}
	status, err := decodeStatus(r.encoding, object)
	if err != nil {
		return event{}, fmt.Errorf("the server sent an error that cannot be read: %w", err)
	}
	return event{}, &apierrors.StatusError{ErrStatus: *status}
}

// accept is what to ask for: protobuf where the Go type can be decoded from it, or where only metadata is
// wanted.
func (f *form) accept(list bool) string {
	const proto, json = "application/vnd.kubernetes.protobuf", "application/json"
	switch {
	case f.keep.metadataOnly:
		as := ";as=PartialObjectMetadata"
		if list {
			as += "List"
		}
		as += ";g=" + metav1.GroupName + ";v=v1"
		return proto + as + "," + json + as + "," + json
	case f.proto != nil:
		return proto + "," + json
	}
	return json
}
