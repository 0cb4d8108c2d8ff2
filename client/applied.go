package client

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxApplied is how many results of applies are remembered. At the limit all are forgotten, and the
// next apply of each object may be sent once although it changes nothing.
const maxApplied = 50_000

// application identifies what one owner applies to one object, or to a subresource of it.
type application struct {
	resource           schema.GroupVersionResource
	key                types.NamespacedName
	subresource, owner string
}

// digest is what an apply came to: what was applied, the fields that the owner then had, and
// their values.
type digest [sha256.Size]byte

// applications remembers what applies came to, for those of which [declares] cannot tell that they
// change nothing: the server fills in defaults within a value that is owned as a whole, or writes a
// quantity in another way. Such an apply changes nothing if it is the same as the last one, and the
// owner still has the same fields with the same values.
type applications struct {
	mu      sync.Mutex
	digests map[application]digest
}

func (a *applications) remember(id application, d digest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.digests) >= maxApplied || a.digests == nil {
		a.digests = map[application]digest{}
	}
	a.digests[id] = d
}

func (a *applications) is(id application, d digest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.digests[id]
	return ok && last == d
}

// digestOf is the digest of an apply of want, after which the owner has the fields of the set in live. It
// reports false when live does not have the fields.
func digestOf(set, want, live map[string]any) (digest, bool) {
	values, ok := owned(set, live)
	if !ok {
		return digest{}, false
	}
	// UID and resourceVersion are preconditions, not fields.
	if metadata, ok := want["metadata"].(map[string]any); ok {
		want = without(want, "metadata")
		want["metadata"] = without(metadata, "uid", "resourceVersion")
	}
	data, err := json.Marshal([]any{want, set, values})
	if err != nil {
		return digest{}, false
	}
	return sha256.Sum256(data), true
}

// owned returns the values of the set's fields. Items of a list come with their paths, in the
// list's order.
func owned(set map[string]any, live any) (any, bool) {
	if isLeaf(set) {
		return live, true
	}
	switch live := live.(type) {
	case map[string]any:
		values := map[string]any{}
		for path, below := range set {
			name, isField := strings.CutPrefix(path, "f:")
			if !isField {
				if path == "." {
					continue
				}
				return nil, false
			}
			value, ok := live[name]
			if ok {
				values[name], ok = owned(asObject(below), value)
			}
			if !ok {
				return nil, false
			}
		}
		return values, true
	case []any:
		return ownedItems(set, live)
	}
	return nil, false
}

func ownedItems(set map[string]any, live []any) (any, bool) {
	var values []any
	found := map[string]bool{".": true}
	for _, item := range live {
		for path, below := range set {
			if found[path] || !isAt(path, item) {
				continue
			}
			value, ok := owned(itemSet(path, below), item)
			if !ok {
				return nil, false
			}
			found[path] = true
			values = append(values, []any{path, value})
			break
		}
	}
	for path := range set {
		if !found[path] {
			return nil, false
		}
	}
	return values, true
}

// isLeaf reports whether the set has nothing below the thing itself.
func isLeaf(set map[string]any) bool {
	_, itself := set["."]
	return len(set) == 0 || len(set) == 1 && itself
}

// rememberApplied remembers what an apply came to, if the cache can be asked about it next time.
func (c *Client) rememberApplied(t target, id application, want *unstructured.Unstructured, fresh Object, got answer) {
	if c.cache == nil || !c.cache.Covers(t.gvk, t.key.Namespace) {
		return
	}
	fields := appliedFields(fresh.GetManagedFields(), id.owner, want.GetAPIVersion(), id.subresource)
	tree, err := c.tree(fresh, got, t.gvk)
	if fields == nil || err != nil {
		return
	}
	if d, ok := digestOf(fields, want.Object, tree); ok {
		c.applied.remember(id, d)
	}
}

// tree is an answer in the form in which the cache would show it as unstructured: by way of the Go
// type for kinds that it keeps as protobuf, else as it was sent.
func (c *Client) tree(fresh Object, got answer, gvk schema.GroupVersionKind) (map[string]any, error) {
	if !c.codec.builtInKinds.Recognizes(gvk) {
		var tree map[string]any
		err := utiljson.Unmarshal(got.body, &tree)
		return tree, err
	}
	if u, ok := fresh.(*unstructured.Unstructured); ok {
		typed, err := c.codec.builtInKinds.New(gvk)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(fresh)
}

// appliedFields returns the field set of the owner's last apply, or nil if that is not known.
func appliedFields(entries []metav1.ManagedFieldsEntry, owner, apiVersion, subresource string) map[string]any {
	at := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == owner && e.Operation == metav1.ManagedFieldsOperationApply &&
			e.Subresource == subresource && e.APIVersion == apiVersion && e.FieldsV1 != nil
	})
	if at < 0 {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(entries[at].FieldsV1.GetRawBytes(), &fields); err != nil {
		return nil
	}
	return fields
}
