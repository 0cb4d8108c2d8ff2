package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

func (f *fixture) list(ctx context.Context, t testing.TB, opts storage.ListOptions) *example.PodList {
	t.Helper()
	opts.Recursive = true
	if opts.Predicate.Label == nil {
		limit, token := opts.Predicate.Limit, opts.Predicate.Continue
		opts.Predicate = storage.Everything
		opts.Predicate.Limit, opts.Predicate.Continue = limit, token
	}
	list := &example.PodList{}
	if err := f.GetList(ctx, "/pods/", opts, list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestNobodyCorruptsTheStore changes everything that the store hands out and was handed.
func TestNobodyCorruptsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		w := f.watch(t.Context(), t, "1", false)
		spoil := func(p *example.Pod) {
			p.Name = "spoilt"
			p.Labels["v"] = "spoilt"
			p.Spec.NodeSelector["k"] = "spoilt"
		}
		p := pod("a")
		p.Labels = map[string]string{"v": "1"}
		p.Spec.NodeSelector = map[string]string{"k": "v"}
		created := f.create(t, p, 0)
		want := created.DeepCopy()
		spoil(p)
		spoil(created)
		spoil((<-w.ResultChan()).Object.(*example.Pod))
		spoil(&f.list(t.Context(), t, storage.ListOptions{}).Items[0])
		got := &example.Pod{}
		for range 2 {
			if err := f.Get(t.Context(), "/pods/ns/a", storage.GetOptions{}, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("stored object was changed (-want +got):\n%s", diff)
			}
			spoil(got)
			got = &example.Pod{}
		}
		w2 := f.watch(t.Context(), t, "1", false)
		if diff := cmp.Diff(runtime.Object(want), (<-w2.ResultChan()).Object); diff != "" {
			t.Errorf("history was changed (-want +got):\n%s", diff)
		}
	})
}

// TestPagesAreOfOneRevision lists in pages while pods come, change and go.
func TestPagesAreOfOneRevision(t *testing.T) {
	f := newFixture(t, Config{})
	for i := range 50 {
		f.create(t, pod(fmt.Sprintf("%03d", i)), 0)
	}
	want := f.list(t.Context(), t, storage.ListOptions{})
	got := &example.PodList{}
	opts := storage.ListOptions{Predicate: storage.SelectionPredicate{Limit: 7}}
	for page := 0; ; page++ {
		list := f.list(t.Context(), t, opts)
		got.Items = append(got.Items, list.Items...)
		if list.ResourceVersion != want.ResourceVersion {
			t.Fatalf("page %d is of resourceVersion %s, want %s", page, list.ResourceVersion, want.ResourceVersion)
		}
		left := len(want.Items) - len(got.Items)
		if left > 0 && (list.RemainingItemCount == nil || *list.RemainingItemCount != int64(left)) {
			t.Fatalf("page %d: remainingItemCount %v, want %d", page, list.RemainingItemCount, left)
		}
		if opts.Predicate.Continue = list.Continue; list.Continue == "" {
			break
		}
		f.delete(t, pod(fmt.Sprintf("%03d", page)))
		f.label(t, pod(fmt.Sprintf("%03d", 40+page)), "x", nil)
		f.create(t, pod(fmt.Sprintf("%03d-new", 30+page)), 0)
	}
	if diff := cmp.Diff(want.Items, got.Items); diff != "" {
		t.Errorf("pages differ from the list at their revision (-want +got):\n%s", diff)
	}
}

// TestWatchesAgreeUnderLoad lets writers fight over few keys while readers list and then watch, from different moments on.
// Each reader must end with exactly what is stored, having seen revisions only rise.
func TestWatchesAgreeUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		const writers, writes, readers = 4, 300, 8
		f := newFixture(t, Config{})
		ctx := t.Context()
		var writing, reading sync.WaitGroup
		done := make(chan uint64, readers) // gets the last revision, once for each reader
		for n := range writers {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			writing.Go(func() {
				for i := range writes {
					if err := f.writeAtRandom(ctx, rnd, fmt.Sprintf("%d-%d", n, i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range readers {
			reading.Go(func() {
				seen := map[string]string{} // name → label@resourceVersion
				list := f.list(ctx, t, storage.ListOptions{})
				for _, p := range list.Items {
					seen[p.Name] = p.Labels["v"] + "@" + p.ResourceVersion
				}
				w := f.watch(ctx, t, list.ResourceVersion, false)
				defer w.Stop()
				f.follow(t, w, list.ResourceVersion, seen, done)
				want := map[string]string{}
				for _, p := range f.list(ctx, t, storage.ListOptions{}).Items {
					want[p.Name] = p.Labels["v"] + "@" + p.ResourceVersion
				}
				if !maps.Equal(seen, want) {
					t.Errorf("a watch ends with\n%v\nstored is\n%v", seen, want)
				}
			})
		}
		writing.Wait()
		f.create(t, pod("last"), 0)
		for range readers {
			done <- f.store.Revision()
		}
		reading.Wait()
	})
}

// follow applies events to seen up to the revision that comes through done.
func (f *fixture) follow(t *testing.T, w watch.Interface, resourceVersion string, seen map[string]string, done <-chan uint64) {
	last, _ := strconv.ParseUint(resourceVersion, 10, 64)
	until := ^uint64(0)
	for last < until {
		select {
		case until = <-done:
			done = nil
		case e := <-w.ResultChan():
			p := podOf(e)
			if p == nil {
				t.Errorf("event %v", e)
				return
			}
			revision, _ := strconv.ParseUint(p.ResourceVersion, 10, 64)
			if revision <= last {
				t.Errorf("revision %d after %d", revision, last)
			}
			last = revision
			_, exists := seen[p.Name]
			if exists == (e.Type == watch.Added) {
				t.Errorf("%s %s at %d, but it exists: %v", e.Type, p.Name, revision, exists)
			}
			if e.Type == watch.Deleted {
				delete(seen, p.Name)
			} else {
				seen[p.Name] = p.Labels["v"] + "@" + p.ResourceVersion
			}
		}
	}
}

func (f *fixture) writeAtRandom(ctx context.Context, rnd *rand.Rand, value string) error {
	p := pod(fmt.Sprint(rnd.IntN(10)))
	var err error
	switch rnd.IntN(3) {
	case 0:
		err = f.Create(ctx, podKey(p), p, nil, 0)
	case 1:
		err = f.GuaranteedUpdate(ctx, podKey(p), &example.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			obj.(*example.Pod).Labels = map[string]string{"v": value}
			return obj, nil
		}), nil)
	case 2:
		err = f.Delete(ctx, podKey(p), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	}
	if storage.IsExist(err) || storage.IsNotFound(err) {
		return nil
	}
	return err
}

// TestNoUpdateIsLost lets several count in one object.
func TestNoUpdateIsLost(t *testing.T) {
	const writers, each = 4, 100
	f := newFixture(t, Config{})
	f.create(t, pod("counter"), 0)
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			var cached runtime.Object // mostly outdated
			for range each {
				out := &example.Pod{}
				err := f.GuaranteedUpdate(t.Context(), "/pods/ns/counter", out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
					p := obj.DeepCopyObject().(*example.Pod)
					n, _ := strconv.Atoi(p.Labels["n"])
					p.Labels = map[string]string{"n": strconv.Itoa(n + 1)}
					return p, nil
				}), cached)
				if err != nil {
					t.Error(err)
				}
				cached = out
			}
		})
	}
	writing.Wait()
	got := f.list(t.Context(), t, storage.ListOptions{}).Items[0]
	if want := strconv.Itoa(writers * each); got.Labels["n"] != want || got.ResourceVersion != strconv.Itoa(2+writers*each) {
		t.Errorf("counted to %s at resourceVersion %s, want %s and one revision for each", got.Labels["n"], got.ResourceVersion, want)
	}
}

func TestEndedContext(t *testing.T) {
	f := newFixture(t, Config{})
	f.create(t, pod("a"), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	unchanged := func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		return obj, nil, nil
	}
	for name, err := range map[string]error{
		"Get":              f.Get(ctx, "/pods/ns/a", storage.GetOptions{}, &example.Pod{}),
		"Create":           f.Create(ctx, "/pods/ns/b", pod("b"), nil, 0),
		"GuaranteedUpdate": f.GuaranteedUpdate(ctx, "/pods/ns/a", &example.Pod{}, false, nil, unchanged, nil),
		"Delete":           f.Delete(ctx, "/pods/ns/a", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}),
		"GetList":          f.GetList(ctx, "/pods/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &example.PodList{}),
	} {
		if !errors.Is(err, context.Canceled) && !storage.IsRequestTimeout(err) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	if f.store.Revision() != 2 {
		t.Error("something was written")
	}
}
