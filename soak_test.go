package setpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
)

// TestSoak runs a controller for a long virtual time under continuous churn while requests fail, answers get
// lost and watches break. Whenever that pauses, all must converge, each change at the server must have a cause,
// and what the process holds must not have grown.
//
// SETPOINT_SEED repeats one run; SETPOINT_SOAK_OBJECTS and SETPOINT_SOAK_TIME make it larger (make soak).
func TestSoak(t *testing.T) {
	s := &soak{
		seed:    seedFromEnv(t),
		objects: 300,
		length:  5 * time.Minute,
	}
	if text := os.Getenv("SETPOINT_SOAK_OBJECTS"); text != "" {
		var err error
		if s.objects, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("SETPOINT_SOAK_TIME"); text != "" {
		var err error
		if s.length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SETPOINT_SEED=%d: %d objects, %v", s.seed, s.objects, s.length)
	bubble(t, func(t *testing.T) {
		s.T = t
		s.run()
	})
}

// seedFromEnv returns the seed that was asked for, or a random one.
func seedFromEnv(t *testing.T) uint64 {
	text := os.Getenv("SETPOINT_SEED")
	if text == "" {
		return rand.Uint64() >> 16
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

const (
	soakFaults   = 0.08                   // share of requests that meet a fault
	soakPeriod   = 200 * time.Millisecond // mean time between two changes from outside
	soakPatience = 20 * time.Minute       // until when all has converged: the longest back-offs have to pass
)

type soak struct {
	*testing.T
	seed    uint64
	objects int
	length  time.Duration

	rand     *rand.Rand
	server   *apitest.Server
	faults   *apitest.Faults
	books    *books
	external *external
	rig      *rig
	stranger *client.Client // the user, and whoever else meddles
	level    int            // last value that anybody asked for: no two are equal
}

func (s *soak) run() {
	s.rand = rand.New(rand.NewPCG(s.seed, 0))
	s.server = apitest.New(tanks, apitest.ConfigMaps)
	s.books = newBooks(s.T, s.objects)
	s.server.Audit(s.books.note)
	s.faults = apitest.NewFaults(s.seed, s.server, s.books.fault)
	s.external = &external{t: s.T, records: map[string]record{}, faults: rand.New(rand.NewPCG(s.seed, 1)), note: s.books.fault}
	s.makeClients()
	for n := range s.objects / 2 { // the others come while it runs
		s.create(n)
	}
	s.faults.SetRate(soakFaults)
	s.rig.start()
	s.fill()
	s.churn(s.length / 6)
	s.quiesce()
	before := s.measure()
	s.churn(s.length - s.length/6)
	s.quiesce()
	after := s.measure()
	s.T.Logf("at first %v, at the end %v", before, after)
	if err := after.grownFrom(before); err != nil {
		s.Error(err)
	}
	s.books.report()
}

func (s *soak) makeClients() {
	config := s.server.REST()
	config.UserAgent = strangerAgent
	var err error
	if s.stranger, err = client.New(client.Config{REST: config, Scheme: tankScheme()}); err != nil {
		s.Fatal(err)
	}
	s.rig = newRig(s.T, s.server, func(c *setpoint.Config) {
		c.REST.Transport = s.faults
		c.Scheme = tankScheme()
		c.Logger = nil // what is logged in an hour is worth gigabytes
		c.Seed = s.seed
	})
	r := &tankReconciler{t: s.T, client: s.rig.m.Client(), external: s.external, running: map[string]bool{}}
	setpoint.For[*Tank](s.rig.m, "tanks").Owns(&corev1.ConfigMap{}).Workers(8).Reconcile(r.reconcile)
}

// churn lets things happen for so long. Each minute all watches end, by turns because the connections break and
// because the server ends them; then, now and then, they cannot go on where they were.
func (s *soak) churn(length time.Duration) {
	s.faults.SetRate(soakFaults)
	start := time.Now()
	for minute := 1; time.Since(start) < length; {
		if time.Since(start) >= time.Duration(minute)*time.Minute {
			if minute%2 == 0 {
				s.faults.CutWatches()
			} else {
				s.server.DropWatches(minute%5 == 0)
			}
			s.server.Requests()
			if minute%10 == 0 {
				s.Logf("%d minutes of churn: %d changes", minute, s.books.changes())
			}
			minute++
		}
		burst := 1
		if s.rand.IntN(500) == 0 {
			burst = 50
		}
		for range burst {
			s.meddle()
		}
		time.Sleep(time.Duration(s.rand.ExpFloat64() * float64(soakPeriod)))
	}
}

// meddle changes something about one object.
func (s *soak) meddle() {
	n := s.rand.IntN(s.objects)
	name := tankName(n)
	tank := newTank(name, 0)
	err := s.stranger.Get(s.Context(), client.KeyOf(tank), tank)
	s.level++
	child := levelOf(name)
	switch chance := s.rand.IntN(100); {
	case apierrors.IsNotFound(err):
		s.create(n)
		return
	case tank.DeletionTimestamp != nil:
		return
	case chance < 40:
		err = s.stranger.Patch(s.Context(), tank, merge(`{"spec":{"level":%d}}`, s.level))
	case chance < 65:
		err = s.stranger.Patch(s.Context(), child, merge(`{"data":{"level":"drift %d"}}`, s.level))
	case chance < 80:
		err = s.stranger.Delete(s.Context(), child)
	default:
		err = s.stranger.Delete(s.Context(), tank)
	}
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
}

func merge(format string, args ...any) client.Patch {
	return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...))
}

func (s *soak) create(n int) {
	s.level++
	if err := s.stranger.Create(s.Context(), newTank(tankName(n), s.level)); err != nil {
		s.Fatal(err)
	}
}

// fill creates the tanks that are missing.
func (s *soak) fill() {
	for n := range s.objects {
		if !s.server.Get(newTank(tankName(n), 0)) {
			s.create(n)
		}
	}
}

// quiesce ends all faults, waits and checks that all has converged.
func (s *soak) quiesce() {
	s.faults.SetRate(0)
	settle(soakPatience)
	s.fill() // what was being deleted is gone
	settle(time.Minute)
	s.checkState()
	s.books.check()

	// Everything is seen anew, and nothing is to do.
	before := s.books.changes()
	s.server.DropWatches(true)
	settle(time.Minute)
	if after := s.books.changes(); after != before {
		s.Errorf("seeing everything anew caused %d changes", after-before)
	}
	if s.Failed() {
		s.FailNow()
	}
}

// checkState compares what is with what is wanted.
func (s *soak) checkState() {
	var all TankList
	var levels corev1.ConfigMapList
	if err := errors.Join(s.stranger.List(s.Context(), &all), s.stranger.List(s.Context(), &levels)); err != nil {
		s.Fatal(err)
	}
	children := map[string]*corev1.ConfigMap{}
	for i := range levels.Items {
		children[levels.Items[i].Name] = &levels.Items[i]
	}
	if len(all.Items) != s.objects {
		s.Errorf("%d tanks, want %d", len(all.Items), s.objects)
	}
	records := s.external.all()
	for i := range all.Items {
		tank := &all.Items[i]
		child := children[tank.Name]
		delete(children, tank.Name)
		record := records[tank.Name]
		delete(records, tank.Name)
		switch {
		case tank.DeletionTimestamp != nil:
			s.Errorf("%s: still being deleted", tank.Name)
		case child == nil:
			s.Errorf("%s: has no child", tank.Name)
		case !owner.IsControlledBy(child, tank):
			s.Errorf("%s: the child belongs to another one", tank.Name)
		case child.Data["level"] != tank.wanted():
			s.Errorf("%s: the child has %q, want %q", tank.Name, child.Data["level"], tank.wanted())
		case tank.Status.ObservedGeneration != tank.Generation:
			s.Errorf("%s: generation %d was observed of %d", tank.Name, tank.Status.ObservedGeneration, tank.Generation)
		case record.owner != tank.UID || record.id != tank.Status.External:
			s.Errorf("%s: the external record is %+v, the tank is %s with %q", tank.Name, record, tank.UID, tank.Status.External)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(children)) {
		s.Errorf("%s: the child is an orphan", name)
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		s.Errorf("%s: the external record is an orphan", name)
	}
}

// size is what the process holds at rest.
type size struct {
	objects, bytes uint64 // on the heap
	goroutines     int
	queue          string // the queue's gauges
	cached         string
}

func (z size) String() string {
	return fmt.Sprintf("%d heap objects, %d KiB, %d goroutines", z.objects, z.bytes/1024, z.goroutines)
}

// measure returns what the process holds. The server's log and history are not counted.
func (s *soak) measure() size {
	s.server.Requests()
	runtime.GC()
	runtime.GC() // what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return size{
		objects: m.HeapObjects, bytes: m.HeapAlloc, goroutines: runtime.NumGoroutine(),
		queue:  strings.Join([]string{s.rig.metric("workqueue_depth"), s.rig.metric("workqueue_unfinished")}, "\n"),
		cached: s.rig.metric("setpoint_cache_objects"),
	}
}

// grownFrom says what has grown. An object that was changed takes some allocations more than a new one, and at the
// first measurement fewer were; with make soak's size, one that is lost per write is more than what is allowed here.
func (z size) grownFrom(before size) error {
	var errs []error
	if z.objects > before.objects+before.objects/33+1000 || z.bytes > before.bytes+before.bytes/20+256*1024 {
		errs = append(errs, fmt.Errorf("the heap grew from %v to %v", before, z))
	}
	if z.goroutines != before.goroutines {
		errs = append(errs, fmt.Errorf("%d goroutines, were %d", z.goroutines, before.goroutines))
	}
	if z.queue != before.queue || z.cached != before.cached || z.cached == "" {
		errs = append(errs, fmt.Errorf("queue and cache hold\n%s\n%s\nand held\n%s\n%s", z.queue, z.cached, before.queue, before.cached))
	}
	return errors.Join(errs...)
}
