package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/lease"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

const churnShards = 8

// errCutOff is what a replica gets whose way to the server is cut.
var errCutOff = errors.New("the server cannot be reached")

// replica is a member of a ring that can be paused on its way to the server, cut off from it, and killed.
type replica struct {
	name string
	stop context.CancelFunc
	done chan error

	mu     sync.Mutex
	paused chan struct{} // closed when it goes on; nil: it is not paused
	cut    bool
	killed bool
	stuck  bool // it was paused when it was to leave, so that it cannot end in time
}

// pause has the replica stand still at the next request or answer for so long.
func (r *replica) pause(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused != nil {
		return
	}
	paused := make(chan struct{})
	r.paused = paused
	time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paused = nil
		close(paused)
	})
}

// cutOff cuts the way to the server for so long.
func (r *replica) cutOff(d time.Duration) {
	r.setCut(true)
	time.AfterFunc(d, func() { r.setCut(false) })
}

func (r *replica) setCut(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut || r.killed
}

// kill ends the replica as a crash does: nothing that it wants to send is sent any more.
func (r *replica) kill() {
	r.mu.Lock()
	r.killed, r.cut = true, true
	r.mu.Unlock()
	r.stop()
}

// leave stops the replica in good order, unless it is paused.
func (r *replica) leave() {
	r.mu.Lock()
	r.stuck = r.paused != nil
	r.mu.Unlock()
	r.stop()
}

// still reports whether nothing of the replica runs: it is paused or dead.
func (r *replica) still() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed || r.paused != nil
}

// pass is where a paused replica stands still. It fails when the way is cut.
func (r *replica) pass() error {
	r.mu.Lock()
	paused := r.paused
	r.mu.Unlock()
	if paused != nil {
		<-paused
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return errCutOff
	}
	return nil
}

// wrap is the replica's way to the server.
func (r *replica) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := errors.Join(r.pass(), req.Context().Err()); err != nil {
			return nil, err
		}
		resp, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if err := r.pass(); err != nil {
			resp.Body.Close()
			return nil, err // it was served, but nobody learns of it
		}
		resp.Body = &passingBody{resp.Body, r}
		return resp, nil
	})
}

// passingBody is the body of an answer, above all of a watch.
type passingBody struct {
	io.ReadCloser
	r *replica
}

func (b *passingBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if cut := b.r.pass(); cut != nil {
		return 0, cut
	}
	return n, err
}

// arena is a plane, the replicas on it, and what must not happen there.
type arena struct {
	t      *testing.T
	config *rest.Config
	random *rand.Rand

	mu      sync.Mutex
	busy    map[string]*replica // by object
	holders map[string]string   // by Lease
	counts  struct{ reconciles, writes, overlapsOfPaused int }
}

// enter notes that a replica begins to reconcile an object. Nobody else may be at it who is not paused or dead.
func (a *arena) enter(object string, r *replica) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.reconciles++
	switch other := a.busy[object]; {
	case other == nil:
	case other.still() || r.still():
		a.counts.overlapsOfPaused++
	default:
		a.t.Errorf("%s is reconciled by %s and by %s at once", object, other.name, r.name)
	}
	a.busy[object] = r
}

func (a *arena) leave(object string, r *replica) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[object] == r {
		delete(a.busy, object)
	}
}

// judging is the last part of a replica's way, next to the server: who holds which Lease when a write arrives.
func (a *arena) judging(r *replica) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if name, ok := strings.CutPrefix(req.URL.Path, "/api/v1/namespaces/default/configmaps/"); ok && req.Method == http.MethodPatch {
				a.arrives(r, name)
			}
			resp, err := next.RoundTrip(req)
			if err == nil && resp.StatusCode < 300 && strings.Contains(req.URL.Path, "/leases") && (req.Method == http.MethodPut || req.Method == http.MethodPost) {
				err = a.leased(resp)
			}
			return resp, err
		})
	}
}

func (a *arena) arrives(r *replica, object string) {
	held := fmt.Sprintf("churn-%d", lease.Shard("default/"+object, churnShards))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.writes++
	if a.holders[held] != r.name {
		a.t.Errorf("a write of %s by %s arrives while %s is held by %q", object, r.name, held, a.holders[held])
	}
}

// leased notes the holder in the answer to a write of a Lease. The body can be read again.
func (a *arena) leased(resp *http.Response) error {
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(strings.NewReader(string(data)))
	if err != nil {
		return err
	}
	var l coordinationv1.Lease
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, &l); err != nil {
		return fmt.Errorf("the answer to the write of a Lease: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders[l.Name] = *l.Spec.HolderIdentity
	return nil
}

// add starts a replica.
func (a *arena) add(name string, seed uint64) *replica {
	a.t.Helper()
	r := &replica{name: name, done: make(chan error, 1)}
	config := rest.CopyConfig(a.config)
	config.Wrap(a.judging(r))
	config.Wrap(r.wrap)
	m, err := setpoint.NewManager(setpoint.Config{
		REST: config, FieldOwner: "churn", Seed: seed, GracePeriod: 2 * time.Second,
		Shards: &setpoint.Shards{Count: churnShards, Lease: lease.Config{Name: "churn", Namespace: "default", Identity: name}},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	setpoint.For[*corev1.ConfigMap](m, "copying").Workers(4).
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			if o.Labels["churn"] == "" {
				return setpoint.Result{}, nil
			}
			a.enter(o.Name, r)
			defer a.leave(o.Name, r)
			select { // virtual time, in which somebody else could begin
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return setpoint.Result{}, ctx.Err()
			}
			if o.Data["done"] == o.Data["wanted"] {
				return setpoint.Result{}, nil
			}
			before := o.DeepCopy()
			o.Data["done"] = o.Data["wanted"]
			return setpoint.Result{}, m.Client().Patch(ctx, o, client.MergeFrom(before))
		})
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- m.Run(ctx) }()
	return r
}

// meddle lets one replica stand still, be cut off, crash or leave, and has a new one take the place of one that is gone.
func (a *arena) meddle(alive []*replica, started *int) (now []*replica, gone *replica) {
	i, d := a.random.IntN(len(alive)), time.Duration(a.random.Int64N(int64(30*time.Second)))
	switch chance := a.random.IntN(6); {
	case chance < 2:
		alive[i].pause(d)
		return alive, nil
	case chance < 4:
		alive[i].cutOff(d)
		return alive, nil
	case chance == 4:
		alive[i].kill()
	default:
		alive[i].leave()
	}
	gone = alive[i]
	*started++
	next := a.add(fmt.Sprint("r", *started), uint64(*started))
	return append(append(alive[:i:i], alive[i+1:]...), next), gone
}

// Four replicas share the objects of one plane while they are paused, cut off, killed and replaced at random: no object is
// reconciled by two at once, no write arrives whose sender does not hold the Lease that it needs, and nothing is
// forgotten. SETPOINT_SEED repeats a run.
func TestShardsOnOnePlaneUnderChurn(t *testing.T) {
	seed := rand.Uint64N(1 << 48)
	if text := os.Getenv("SETPOINT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p := planetest.New(t)
		a := &arena{t: t, config: p.RESTConfig(), random: rand.New(rand.NewPCG(seed, 0)), busy: map[string]*replica{}, holders: map[string]string{}}
		user, err := client.New(client.Config{REST: p.RESTConfig(), FieldOwner: "user"})
		if err != nil {
			t.Fatal(err)
		}
		const objects = 100
		want := func(n int, value string) {
			o := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("churn-", n), Labels: map[string]string{"churn": "yes"}},
				Data:       map[string]string{"wanted": value},
			}
			if err := user.Apply(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
		for n := range objects {
			want(n, "first")
		}
		var alive, all []*replica
		started := 4
		for n := range started {
			alive = append(alive, a.add(fmt.Sprint("r", n+1), uint64(n+1)))
		}
		all = append(all, alive...)
		time.Sleep(20 * time.Second)
		next := time.Now()
		for begin := time.Now(); time.Since(begin) < 3*time.Minute; {
			time.Sleep(time.Duration(a.random.ExpFloat64() * float64(200*time.Millisecond)))
			want(a.random.IntN(objects), fmt.Sprint(a.random.Uint64()))
			if time.Now().After(next) {
				before := len(alive)
				var gone *replica
				if alive, gone = a.meddle(alive, &started); gone != nil {
					all = append(all, alive[before-1])
				}
				next = time.Now().Add(time.Duration(a.random.ExpFloat64() * float64(15*time.Second)))
			}
		}
		time.Sleep(90 * time.Second) // pauses and cuts end, and the rest is done
		var list corev1.ConfigMapList
		if err := user.List(t.Context(), &list, client.InNamespace("default"), client.MatchingLabels{"churn": "yes"}); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.Data["done"] != o.Data["wanted"] {
				t.Errorf("%s was forgotten: %v", o.Name, o.Data)
			}
		}
		a.mu.Lock()
		t.Logf("SETPOINT_SEED=%d: %d replicas in turn, %d objects, %d reconciles, %d writes, %d taken over from paused or dead replicas",
			seed, started, len(list.Items), a.counts.reconciles, a.counts.writes, a.counts.overlapsOfPaused)
		if a.counts.writes < objects {
			t.Errorf("%d writes are too few to prove anything", a.counts.writes)
		}
		a.mu.Unlock()
		for _, r := range all {
			r.stop()
			if err := <-r.done; err != nil && !r.still() && !r.stuck {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	})
	if t.Failed() {
		t.Logf("SETPOINT_SEED=%d repeats the meddling", seed)
	}
}
