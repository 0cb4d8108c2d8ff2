package queue

// A list is a doubly linked list whose nodes live inside the things it links, so that a thing enters, leaves and changes
// lists without an allocation and without knowing which list it is in. A node is in at most one list. A list must not
// be copied.
type list[T any] struct{ root node[T] }

type node[T any] struct {
	prev, next *node[T]
	owner      *T
}

func (l *list[T]) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *list[T]) empty() bool { return l.root.next == &l.root }

// front returns the first owner, or nil.
func (l *list[T]) front() *T { return l.root.next.owner }

// push puts the node at the end.
func (l *list[T]) push(n *node[T]) {
	last := l.root.prev
	n.prev, n.next = last, &l.root
	last.next, l.root.prev = n, n
}

// all yields the owners from front to back. The list must not change meanwhile.
func (l *list[T]) all(yield func(*T) bool) {
	for n := l.root.next; n != &l.root; n = n.next {
		if !yield(n.owner) {
			return
		}
	}
}

func (n *node[T]) remove() {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
}
