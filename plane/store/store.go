package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

const (
	defaultHistory          = 10_000
	defaultHistoryBytes     = 64 << 20
	defaultBookmarkInterval = time.Minute

	// firstRevision is the revision of an empty store. It is not zero because a resourceVersion of "0" means "any".
	firstRevision = 1
)

// Config configures New. The zero value is usable.
type Config struct {
	// History is the number of past changes that are kept for watches and for reads at an old resourceVersion. The oldest are
	// compacted automatically. 0 means 10000.
	History int
	// HistoryBytes limits the size of the encoded objects kept only for the sake of the history. 0 means 64 MiB.
	HistoryBytes int
	// BookmarkInterval is the time between two bookmarks of a watch that asked for them. 0 means one minute.
	BookmarkInterval time.Duration
}

// Store is one keyspace with one revision counter for all resources: see the package comment for its laws.
type Store struct {
	table            *mvcc.Table[*record]
	bookmarkInterval time.Duration

	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	watches sync.WaitGroup

	// announced is the newest revision whose change the watches have been told of.
	announced atomic.Uint64

	mu       sync.Mutex // held while a change is committed and announced, so that both happen in the same order
	stopped  bool
	byKey    map[string][]*watcher // by the key or the prefix watched
	expiries expiries
}

// record is the stored form of an object. Nothing in it changes once it is in the table.
type record struct {
	data    []byte    // encoded, and encrypted when the resource has a transformer
	expires time.Time // zero: never
}

// Weight implements mvcc.Weigher.
func (r *record) Weight() int { return len(r.data) }

// New makes an empty store. It runs nothing until it is used; Stop ends what it runs then.
func New(c Config) *Store {
	if c.History == 0 {
		c.History = defaultHistory
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = defaultHistoryBytes
	}
	if c.BookmarkInterval == 0 {
		c.BookmarkInterval = defaultBookmarkInterval
	}
	s := &Store{
		table: mvcc.New[*record](mvcc.Options{
			History: c.History, HistoryWeight: c.HistoryBytes, Revision: firstRevision,
		}),
		bookmarkInterval: c.BookmarkInterval,
		byKey:            map[string][]*watcher{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.announced.Store(firstRevision)
	return s
}

// Stop ends all watches and the expiry of objects, and returns when that is done. Watch fails from then on; all else goes on
// working, so that what a stopped plane has left can be looked at.
func (s *Store) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.stop()
	s.expiries.stop()
	s.mu.Unlock()
	s.watches.Wait()
}

// Revision returns the revision of the last change, which is the resourceVersion of an object written by it.
func (s *Store) Revision() uint64 { return s.table.Revision() }

// Compact forgets the changes up to revision: watches from and reads at an earlier one fail with 410 Gone.
func (s *Store) Compact(revision uint64) error { return s.table.Compact(revision) }

// errStale says that a key is not at the revision that a write expected.
var errStale = errors.New("key has another revision")

// write makes the change of key to r (nil: deletion) visible if key is still at revision expected (0: does not exist), and
// returns the revision of the change. With keepExpiry, r expires when its predecessor would have.
//
// Every change of the store goes through here, one key and one revision at a time. It is the place for a durable log (append
// before the table is updated, wait for the disk before returning) and for injected faults.
func (s *Store) write(key string, expected uint64, r *record, keepExpiry bool) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(key, expected, r, keepExpiry)
}

func (s *Store) writeLocked(key string, expected uint64, r *record, keepExpiry bool) (uint64, error) {
	revision, err := s.table.Update(func(tx *mvcc.Txn[*record]) error {
		old, at, exists := tx.Get(key)
		if at != expected {
			return errStale
		}
		if r == nil {
			tx.Delete(key)
			return nil
		}
		if keepExpiry && exists {
			r.expires = old.expires
		}
		tx.Set(key, r)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if r != nil && !r.expires.IsZero() && !s.stopped {
		s.expiries.add(expiry{r.expires, key}, s.expire)
	}
	s.announce(key, revision)
	return revision, nil
}

// announce tells the watches of key that it was changed at revision. It is called in the order of revisions.
func (s *Store) announce(key string, revision uint64) {
	for i := range len(key) {
		if key[i] == '/' {
			for _, w := range s.byKey[key[:i+1]] {
				w.tell(revision)
			}
		}
	}
	for _, w := range s.byKey[key] {
		w.tell(revision)
	}
	s.announced.Store(revision)
}
