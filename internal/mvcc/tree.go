package mvcc

import "slices"

const (
	maxLen = 32 // most entries of a leaf, children of a branch
	minLen = 8  // a node that a deletion leaves with fewer is joined with a neighbour; divided in order, one can have 2
)

// privateTxn marks the nodes of a tree that is built outside of any transaction and published to nobody before it is done.
const privateTxn = ^uint64(0)

// node is a leaf (links is nil) or a branch (items is nil) of the tree. It may be changed only by the transaction that made
// it, which is the one numbered txn; for everyone else it is immutable.
type node[V any] struct {
	txn   uint64
	size  int        // entries in this node and below
	items []Entry[V] // ascending keys
	links []link[V]  // ascending, at least two
}

// link leads to a child. low ≤ every key below the child; every key below the child to the left < low.
type link[V any] struct {
	low  string
	node *node[V]
}

func (n *node[V]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node[V]) width() int { return len(n.items) + len(n.links) }

// search returns the position of the first item that is not less than key.
func (n *node[V]) search(key string) (int, bool) {
	lo, hi := 0, len(n.items)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if n.items[mid].Key < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(n.items) && n.items[lo].Key == key
}

// child returns the position of the only link below which key can be: the last with low ≤ key, or the first.
func (n *node[V]) child(key string) int {
	lo, hi := 1, len(n.links)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if n.links[mid].low <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

func (n *node[V]) get(key string) (value V, revision uint64, ok bool) {
	if n == nil {
		return value, 0, false
	}
	for n.links != nil {
		n = n.links[n.child(key)].node
	}
	i, ok := n.search(key)
	if !ok {
		return value, 0, false
	}
	return n.items[i].Value, n.items[i].Revision, true
}

// ascend yields the entries with from ≤ key < to (to "": no bound) and says whether to go on to the right.
func (n *node[V]) ascend(from, to string, yield func(Entry[V]) bool) bool {
	if n == nil {
		return true
	}
	if n.links == nil {
		i, _ := n.search(from)
		for ; i < len(n.items); i++ {
			if to != "" && n.items[i].Key >= to || !yield(n.items[i]) {
				return false
			}
		}
		return true
	}
	for i := n.child(from); i < len(n.links); i++ {
		if to != "" && n.links[i].low >= to || !n.links[i].node.ascend(from, to, yield) {
			return false
		}
	}
	return true
}

// rank returns the number of entries with a key less than key.
func (n *node[V]) rank(key string) int {
	if n == nil {
		return 0
	}
	r := 0
	for n.links != nil {
		at := n.child(key)
		for _, l := range n.links[:at] {
			r += l.node.size
		}
		n = n.links[at].node
	}
	i, _ := n.search(key)
	return r + i
}

// tree is a root that one transaction may change. The nodes it has made itself are changed in place, all others are copied.
type tree[V any] struct {
	txn  uint64
	root *node[V]
}

// own returns n as a node that this transaction may change.
func (t *tree[V]) own(n *node[V]) *node[V] {
	if n.txn == t.txn {
		return n
	}
	return &node[V]{txn: t.txn, size: n.size, items: roomy(n.items), links: roomy(n.links)}
}

// roomy returns a copy with room for one more element and little unused space.
func roomy[E any](s []E) []E {
	if s == nil {
		return nil
	}
	return append(make([]E, 0, min(maxLen, len(s)/4*4+4)), s...)
}

func (t *tree[V]) set(e Entry[V]) (old Entry[V], replaced bool) {
	if t.root == nil {
		t.root = &node[V]{txn: t.txn, size: 1, items: []Entry[V]{e}}
		return old, false
	}
	left, right, old, replaced := t.put(t.root, e)
	t.root = left
	if right != nil {
		t.root = &node[V]{txn: t.txn, size: left.size + right.size, links: []link[V]{left.link(), right.link()}}
	}
	return old, replaced
}

// put writes e below n. It returns the changed n and, when n had to be divided, the new node to the right of it.
func (t *tree[V]) put(n *node[V], e Entry[V]) (left, right *node[V], old Entry[V], replaced bool) {
	n = t.own(n)
	if n.links == nil {
		i, found := n.search(e.Key)
		if found {
			old, e.Key = n.items[i], n.items[i].Key // one copy of the key is enough
			n.items[i] = e
			return n, nil, old, true
		}
		items, rest := insert(n.items, i, e)
		n.items = items
		if rest != nil {
			right = &node[V]{txn: t.txn, items: rest}
		}
	} else {
		i := n.child(e.Key)
		n.links[i].low = min(n.links[i].low, e.Key)
		kid, split, was, had := t.put(n.links[i].node, e)
		n.links[i].node, old, replaced = kid, was, had
		if split != nil {
			links, rest := insert(n.links, i+1, split.link())
			n.links = links
			if rest != nil {
				right = &node[V]{txn: t.txn, links: rest}
			}
		}
	}
	n.resize()
	if right != nil {
		right.resize()
	}
	return n, right, old, replaced
}

// insert puts e at position i. A full slice is divided; rest is then the right part. Insertion at the end leaves the left
// part full, so that keys that arrive in order fill the leaves.
func insert[E any](s []E, i int, e E) (left, rest []E) {
	if len(s) < maxLen {
		if len(s) == cap(s) {
			s = append(make([]E, 0, min(maxLen, 2*len(s)+4)), s...)
		}
		return slices.Insert(s, i, e), nil
	}
	if i == maxLen {
		return s[: maxLen-1 : maxLen], []E{s[maxLen-1], e}
	}
	left, rest = roomy(s[:maxLen/2]), roomy(s[maxLen/2:])
	if i <= maxLen/2 {
		return slices.Insert(left, i, e), rest
	}
	return left, slices.Insert(rest, i-maxLen/2, e)
}

func (t *tree[V]) delete(key string) (old Entry[V], deleted bool) {
	if _, _, ok := t.root.get(key); !ok {
		return old, false
	}
	t.root, old = t.remove(t.root, key)
	if len(t.root.links) == 1 {
		t.root = t.root.links[0].node
	}
	if t.root.size == 0 {
		t.root = nil
	}
	return old, true
}

// remove deletes key, which exists, below n and returns the changed n.
func (t *tree[V]) remove(n *node[V], key string) (*node[V], Entry[V]) {
	n = t.own(n)
	n.size--
	if n.links == nil {
		i, _ := n.search(key)
		old := n.items[i]
		n.items = slices.Delete(n.items, i, i+1)
		return n, old
	}
	i := n.child(key)
	kid, old := t.remove(n.links[i].node, key)
	n.links[i].node = kid
	if kid.width() < minLen {
		t.join(n, max(i, 1))
	}
	return n, old
}

// join merges the children left and right of the boundary i of n, or, when one node cannot hold both, makes them even.
func (t *tree[V]) join(n *node[V], i int) {
	left, right := t.own(n.links[i-1].node), n.links[i].node
	n.links[i-1].node = left
	left.items = append(left.items, right.items...)
	left.links = append(left.links, right.links...)
	if left.width() <= maxLen {
		left.resize()
		n.links = slices.Delete(n.links, i, i+1)
		return
	}
	half := left.width() / 2
	even := &node[V]{txn: t.txn}
	if left.links == nil {
		even.items, left.items = roomy(left.items[half:]), roomy(left.items[:half])
	} else {
		even.links, left.links = roomy(left.links[half:]), roomy(left.links[:half])
	}
	left.resize()
	even.resize()
	n.links[i] = even.link()
}

// link returns a link to n, which is not empty.
func (n *node[V]) link() link[V] {
	if n.links == nil {
		return link[V]{low: n.items[0].Key, node: n}
	}
	return link[V]{low: n.links[0].low, node: n}
}

// resize counts the entries again after the items or links were changed.
func (n *node[V]) resize() {
	n.size = len(n.items)
	for _, l := range n.links {
		n.size += l.node.size
	}
}
