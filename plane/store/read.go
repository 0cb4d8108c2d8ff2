package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/setpoint-dev/setpoint/internal/mvcc"
)

// Get implements storage.Interface.
func (r *resource) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, err := r.key(key, false)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	snapshot := r.store.table.Snapshot()
	if err := r.atLeast(opts.ResourceVersion, snapshot.Revision()); err != nil {
		return err
	}
	rec, revision, ok := snapshot.Get(key)
	if !ok {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	data, _, err := r.open(ctx, key, rec.data)
	if err != nil {
		return err
	}
	return r.decodeInto(data, out, revision)
}

// GetList implements storage.Interface.
func (r *resource) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	prefix, err := r.key(key, opts.Recursive)
	if err != nil {
		return err
	}
	itemsPtr, err := meta.GetItemsPtr(listObj)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(itemsPtr)
	if err != nil || items.Kind() != reflect.Slice {
		return fmt.Errorf("list into %T: items are not a slice: %w", listObj, err)
	}
	at, from, err := storage.ValidateListOptions(prefix, r.versioner, opts)
	if err != nil {
		return err
	}
	snapshot, err := r.snapshotForList(uint64(at), prefix, from, opts)
	if err != nil {
		return err
	}
	from, to := max(from, prefix), mvcc.PrefixEnd(prefix)
	if !opts.Recursive {
		to = prefix + "\x00"
	}

	l := lister{resource: r, pred: opts.Predicate, items: items, newItem: newItemFunc(listObj, items)}
	count := snapshot.Count(from, to)
	if opts.Predicate.Empty() {
		l.grow(count)
	}
	for e := range snapshot.Range(from, to) {
		if done, err := l.add(ctx, e); err != nil {
			return err
		} else if done {
			break
		}
	}
	if items.IsNil() {
		items.Set(reflect.MakeSlice(items.Type(), 0, 0)) // "items": [] and not null
	}
	next, remaining, err := storage.PrepareContinueToken(l.lastKey, prefix, int64(snapshot.Revision()), int64(count), l.more, opts)
	if err != nil {
		return err
	}
	if err := r.versioner.UpdateList(listObj, snapshot.Revision(), next, remaining); err != nil {
		return err
	}
	opts.Predicate.SetShardInfoOnList(listObj)
	return nil
}

// snapshotForList returns the content to list: at the revision asked for, or the newest for 0.
func (r *resource) snapshotForList(at uint64, prefix, from string, opts storage.ListOptions) (mvcc.Snapshot[*record], error) {
	snapshot := r.store.table.Snapshot()
	if at == 0 {
		if opts.Predicate.Continue != "" && opts.Recursive {
			return snapshot, nil
		}
		return snapshot, r.atLeast(opts.ResourceVersion, snapshot.Revision())
	}
	old, err := snapshot.At(at)
	switch {
	case errors.Is(err, mvcc.ErrFuture):
		return old, storage.NewTooLargeResourceVersionError(at, snapshot.Revision(), 0)
	case errors.Is(err, mvcc.ErrCompacted) && opts.Predicate.Continue != "":
		return old, expiredContinue(from, prefix)
	case errors.Is(err, mvcc.ErrCompacted):
		return old, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return old, err
}

// expiredContinue is the error for a continue token whose revision is compacted. It carries a token to go on with at the
// newest revision.
func expiredContinue(from, prefix string) error {
	const tooOld = "The provided continue parameter is too old to display a consistent list result" // clients know these words
	next, err := storage.EncodeContinue(from, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(tooOld + ". Start a new list without it.")
	}
	expired := apierrors.NewResourceExpired(tooOld + ". Start a new list without it, or use the continue token in this response for the rest of the list as it is now: " +
		"objects changed since the first part was read may then be missing or appear twice.")
	expired.ErrStatus.ListMeta.Continue = next
	return expired
}

// lister collects the items of one GetList.
type lister struct {
	*resource
	pred    storage.SelectionPredicate
	items   reflect.Value // slice
	newItem func() runtime.Object
	lastKey string // last entry looked at
	more    bool   // the limit was reached before the end
}

// grow makes room for n items.
func (l *lister) grow(n int) {
	if l.pred.Limit > 0 {
		n = min(n, int(l.pred.Limit))
	}
	if n > l.items.Cap() {
		l.items.Set(reflect.MakeSlice(l.items.Type(), 0, n))
	}
}

// add appends e if it is selected, and says whether there was no room for it.
func (l *lister) add(ctx context.Context, e mvcc.Entry[*record]) (full bool, err error) {
	if l.pred.Limit > 0 && int64(l.items.Len()) >= l.pred.Limit {
		l.more = true
		return true, nil
	}
	if ctx.Err() != nil {
		return false, storage.NewTimeoutError(e.Key, "request did not complete within requested timeout")
	}
	l.lastKey = e.Key
	obj, err := l.decode(ctx, e.Key, e.Value.data, e.Revision, l.newItem())
	if err != nil {
		return false, err
	}
	if matched, err := l.pred.Matches(obj); err == nil && matched {
		l.items.Set(reflect.Append(l.items, reflect.ValueOf(obj).Elem()))
	}
	return false, nil
}

// newItemFunc returns what makes an empty item of the list. An unstructured item gets the list's apiVersion, so that it is
// decoded to that version.
func newItemFunc(list runtime.Object, items reflect.Value) func() runtime.Object {
	if u, ok := list.(*unstructured.UnstructuredList); ok && u.GetAPIVersion() != "" {
		version := u.GetAPIVersion()
		return func() runtime.Object {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version}}
		}
	}
	item := items.Type().Elem()
	return func() runtime.Object { return reflect.New(item).Interface().(runtime.Object) }
}
