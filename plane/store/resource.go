package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
)

// Resource says how the objects of one resource are stored.
type Resource struct {
	GroupResource schema.GroupResource
	// Codec encodes to the storage version and decodes to what the callers of the interface work with.
	Codec runtime.Codec
	// Prefix starts every key of the resource, such as "/pods".
	Prefix string
	// NewFunc makes an empty object, NewListFunc an empty list.
	NewFunc     func() runtime.Object
	NewListFunc func() runtime.Object
	// Transformer encrypts the encoded objects. Nil stores them as they are.
	Transformer value.Transformer
}

// resource is a storage.Interface for one Resource. Several may share a prefix.
type resource struct {
	Resource
	store     *Store
	versioner storage.APIObjectVersioner

	ctx      context.Context // ends with destroy or with Store.Stop
	cancel   context.CancelFunc
	running  sync.WaitGroup
	watchers []*watcher   // guarded by store.mu
	watching atomic.Int32 // their number
	recent   recent
}

var _ storage.Interface = (*resource)(nil)

// Interface returns a storage.Interface for r and a function that ends its watches, and returns when they have ended; the
// objects stay. It fails when r lacks something.
func (s *Store) Interface(r Resource) (storage.Interface, func(), error) {
	var errs []error
	if r.Codec == nil {
		errs = append(errs, errors.New("no Codec"))
	}
	if !strings.HasPrefix(r.Prefix, "/") || r.Prefix == "/" {
		errs = append(errs, fmt.Errorf("prefix %q is not a path that starts with /", r.Prefix))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("storage of %s: %w", r.GroupResource, err)
	}
	r.Prefix = strings.TrimSuffix(r.Prefix, "/")
	i := &resource{Resource: r, store: s}
	i.ctx, i.cancel = context.WithCancel(s.ctx)
	return i, i.destroy, nil
}

func (r *resource) destroy() {
	r.store.mu.Lock()
	r.cancel()
	r.store.mu.Unlock()
	r.running.Wait()
}

// Versioner implements storage.Interface.
func (r *resource) Versioner() storage.Versioner { return r.versioner }

// Stats implements storage.Interface. The average size is exact.
func (r *resource) Stats(context.Context) (storage.Stats, error) {
	var n, size int64
	for e := range r.store.table.Snapshot().Prefix(r.Prefix + "/") {
		n++
		size += int64(len(e.Value.data))
	}
	return storage.Stats{ObjectCount: n, EstimatedAverageObjectSizeBytes: size / max(n, 1)}, nil
}

// EnableResourceSizeEstimation implements storage.Interface. There is nothing to enable, as Stats always knows the sizes.
func (r *resource) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("KeysFunc cannot be nil")
	}
	return nil
}

// ReadinessCheck implements storage.Interface: the store is ready until it is stopped.
func (r *resource) ReadinessCheck() error {
	if r.store.ctx.Err() != nil {
		return storage.ErrStorageNotReady
	}
	return nil
}

// RequestWatchProgress implements storage.Interface: each watch of the resource that has ProgressNotify set gets a bookmark
// soon.
func (r *resource) RequestWatchProgress(context.Context) error {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	for _, w := range r.watchers {
		if w.opts.ProgressNotify {
			w.requestProgress()
		}
	}
	return nil
}

// GetCurrentResourceVersion implements storage.Interface.
func (r *resource) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return r.store.Revision(), nil
}

// CompactRevision implements storage.Interface.
func (r *resource) CompactRevision() int64 {
	if c := r.store.table.Snapshot().Compacted(); c > firstRevision {
		return int64(c)
	}
	return 0
}

func (r *resource) key(key string, recursive bool) (string, error) {
	return storage.PrepareKey(r.Prefix+"/", key, recursive)
}

// dataKey ties the encrypted form of an object to its key.
type dataKey string

// AuthenticatedData implements value.Context.
func (k dataKey) AuthenticatedData() []byte { return []byte(k) }

// encode returns the encoded form of obj, whose resourceVersion it clears, as that is the revision and not stored.
func (r *resource) encode(obj runtime.Object) ([]byte, error) {
	if err := r.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("prepare object for storage: %w", err)
	}
	data, err := runtime.Encode(r.Codec, obj)
	if err != nil {
		return nil, err
	}
	if cap(data) > len(data)+len(data)/8 {
		data = slices.Clone(data) // the encoder's buffer can be twice as long
	}
	return data, nil
}

// seal returns the form to store of encoded data.
func (r *resource) seal(ctx context.Context, key string, data []byte) ([]byte, error) {
	if r.Transformer == nil {
		return data, nil
	}
	sealed, err := r.Transformer.TransformToStorage(ctx, data, dataKey(key))
	if err != nil {
		return nil, storage.NewInternalError(err)
	}
	return sealed, nil
}

// open is the reverse of seal. Stale data should be written again even if it does not change.
func (r *resource) open(ctx context.Context, key string, sealed []byte) (data []byte, stale bool, err error) {
	if r.Transformer == nil {
		return sealed, false, nil
	}
	data, stale, err = r.Transformer.TransformFromStorage(ctx, sealed, dataKey(key))
	if err != nil {
		return nil, false, storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", key, err))
	}
	return data, stale, nil
}

// decodeInto decodes data into out and sets its resourceVersion.
func (r *resource) decodeInto(data []byte, out runtime.Object, revision uint64) error {
	if _, err := conversion.EnforcePtr(out); err != nil {
		return fmt.Errorf("decode into %T: %w", out, err)
	}
	if _, _, err := r.Codec.Decode(data, nil, out); err != nil {
		return err
	}
	return r.versioner.UpdateObject(out, revision)
}

// decode opens and decodes the stored form of an object, into an object of into's type unless into is nil.
func (r *resource) decode(ctx context.Context, key string, sealed []byte, revision uint64, into runtime.Object) (runtime.Object, error) {
	data, _, err := r.open(ctx, key, sealed)
	if err != nil {
		return nil, err
	}
	obj, _, err := r.Codec.Decode(data, nil, into)
	if err != nil {
		return nil, err
	}
	return obj, r.versioner.UpdateObject(obj, revision)
}

// atLeast fails when the resourceVersion asked for is newer than revision.
func (r *resource) atLeast(resourceVersion string, revision uint64) error {
	if resourceVersion == "" {
		return nil
	}
	least, err := r.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if least > revision {
		return storage.NewTooLargeResourceVersionError(least, revision, 0)
	}
	return nil
}
