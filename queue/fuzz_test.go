package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// FuzzQueue runs a program, read from the input, on the queue and on the model, and compares all that can be seen.
// Its corpus, programs from the seeds 0, 1, 2, …, runs with the normal tests.
func FuzzQueue(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(randomProgram(seed, 2000))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		synctest.Test(t, func(t *testing.T) { runProgram(t, program) })
	})
}

// TestQueueAgreesWithModel runs longer programs than the fuzzer's corpus.
func TestQueueAgreesWithModel(t *testing.T) {
	for seed := uint64(1000); seed < 1010; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runProgram(t, randomProgram(seed, 10_000)) })
		})
	}
}

func randomProgram(seed uint64, length int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	program := make([]byte, length)
	for i := range program {
		program[i] = byte(random.Uint32())
	}
	return program
}

// steps are the durations of a program: few, so that many things fall on the same moment.
var steps = []time.Duration{
	0, 1, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond,
	time.Second, time.Second, 2 * time.Second, 10 * time.Second, time.Minute,
}

// pair is a queue and its model under the same program.
type pair struct {
	t       *testing.T
	program []byte
	at      int // next byte of the program
	start   time.Time
	queue   *Queue[string]
	model   *model
	trace   []string

	version int
	waiters map[int]*fuzzWaiter
	names   int
}

type fuzzWaiter struct {
	cancel context.CancelFunc
	result chan fuzzResult
}

type fuzzResult struct {
	item Item[string]
	err  error
}

// ended returns what the Get returned, if it did.
func (w *fuzzWaiter) ended() (fuzzResult, bool) {
	select {
	case r := <-w.result:
		return r, true
	default:
		return fuzzResult{}, false
	}
}

func runProgram(t *testing.T, program []byte) {
	p := &pair{t: t, program: program, start: time.Now(), waiters: map[int]*fuzzWaiter{}}
	p.configure()
	for p.at < len(p.program) && !t.Failed() {
		p.step()
		p.compare()
	}
	p.end()
	if t.Failed() {
		t.Logf("the last of %d steps:", len(p.trace))
		for _, line := range p.trace[max(0, len(p.trace)-40):] {
			t.Log(line)
		}
	}
}

func (p *pair) configure() {
	config := Config[string]{}
	p.model = &model{keys: map[string]*modelKey{}, given: map[int]modelItem{}}
	switch p.next(4) {
	case 0:
		config.Slack = Slack{Planned: -1, Retry: -1, Listed: 40 * time.Millisecond}
	case 1:
		config.Slack = Slack{Planned: 2 * time.Second, Retry: time.Second, Listed: time.Second}
	}
	for class, slack := range config.Slack.byClass() {
		p.model.slack[class] = time.Duration(slack)
	}
	if p.next(4) > 0 {
		config.Flow, p.model.flows = flowOf, true
	}
	switch p.next(3) {
	case 0:
		config.Retries, p.model.rate, p.model.burst = Bucket{Rate: 10, Burst: 3}, 100*time.Millisecond, 3
	case 1:
		config.Retries, p.model.rate, p.model.burst = Bucket{Rate: 1}, time.Second, 1
	}
	if p.next(2) > 0 {
		config.Backoff = Backoff{Base: time.Millisecond, Max: 100 * time.Millisecond}
	}
	p.model.backoff = config.Backoff.withDefaults()
	p.queue = New(config)
	// Drop entries in smaller batches than the few keys of a program would ever fill.
	p.queue.leaving = make([]*entry[string], 0, 1+p.next(8))
}

// next reads a number below n from the program.
func (p *pair) next(n int) int {
	if p.at >= len(p.program) {
		return 0
	}
	p.at++
	return int(p.program[p.at-1]) % n
}

func (p *pair) key() string {
	n := p.next(24)
	return fmt.Sprintf("flow-%d/key-%d", min(n%8, 4), n)
}

func (p *pair) cause(source string) Cause {
	p.version++
	return Cause{Source: source, Kind: "Pod", Object: fmt.Sprint("o", p.next(12)), Verb: "modified", Version: fmt.Sprint(p.version)}
}

func (p *pair) log(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf("%v: ", time.Since(p.start))+fmt.Sprintf(format, args...))
}

func (p *pair) step() {
	switch op := p.next(16); op {
	case 0, 1, 2, 3:
		key, class, cause := p.key(), Class(p.next(Classes)), p.cause("For")
		p.log("Add(%s, %v)", key, class)
		p.queue.Add(key, class, cause)
		p.model.add(key, class, cause)
	case 4, 5:
		key, d, cause := p.key(), steps[p.next(len(steps))], p.cause("After")
		p.log("AddAfter(%s, %v)", key, d)
		p.queue.AddAfter(key, d, cause)
		p.model.addAfter(key, d, cause)
	case 6, 7:
		key, cause := p.key(), p.cause("Retry")
		p.log("AddRateLimited(%s)", key)
		p.queue.AddRateLimited(key, cause)
		p.model.addRateLimited(key, cause)
	case 8:
		key := p.key()
		p.log("Forget(%s)", key)
		p.queue.Forget(key)
		p.model.forget(key)
	case 9, 10, 11:
		p.get()
	case 12, 13:
		if running := p.model.running; len(running) > 0 {
			key := running[p.next(len(running))].name
			p.log("Done(%s)", key)
			p.queue.Done(key)
			p.model.done(key)
		}
	case 14:
		if p.next(4) == 0 && len(p.model.waiters) > 0 {
			name := p.model.waiters[p.next(len(p.model.waiters))]
			p.log("cancel Get %d", name)
			p.waiters[name].cancel()
			p.model.waiters = slices.DeleteFunc(p.model.waiters, func(n int) bool { return n == name })
		}
	case 15:
		d := steps[p.next(len(steps))]
		p.log("sleep %v", d)
		time.Sleep(d)
	}
	synctest.Wait()
	p.model.advance(time.Since(p.start))
}

// get takes a key at once when there is one, and else now and then leaves a Get waiting.
func (p *pair) get() {
	want, ok := p.model.get()
	if !ok {
		if p.next(3) == 0 && len(p.model.waiters) < 4 {
			p.startWaiter()
		}
		return
	}
	p.log("Get = %s", want.key)
	if p.queue.Len() == 0 {
		p.t.Errorf("nothing to get, want %s", want.key)
		return
	}
	item, err := p.queue.Get(p.t.Context())
	if err != nil {
		p.t.Errorf("Get: %v", err)
	}
	p.compareItem(item, want)
}

func (p *pair) startWaiter() {
	p.names++
	name, w := p.names, &fuzzWaiter{result: make(chan fuzzResult, 1)}
	p.log("Get %d waits", name)
	ctx, cancel := context.WithCancel(p.t.Context())
	w.cancel = cancel
	p.waiters[name] = w
	go func() {
		item, err := p.queue.Get(ctx)
		w.result <- fuzzResult{item, err}
	}()
	synctest.Wait()
	p.model.wait(name)
}

func (p *pair) compareItem(item Item[string], want modelItem) {
	p.t.Helper()
	got := modelItem{item.Key, item.Causes, item.Class, item.Failures, item.Added.Sub(p.start)}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(modelItem{})); diff != "" {
		p.t.Errorf("item differs from the model's (-want +got):\n%s", diff)
	}
}

func (p *pair) compare() {
	p.t.Helper()
	if want, got := p.model.stats(), p.queue.Stats(); got != want {
		p.t.Errorf("stats differ from the model's (-want +got):\n%s", gocmp.Diff(want, got))
	}
	for name, w := range p.waiters {
		want, given := p.model.given[name]
		got, ended := w.ended()
		switch waits := slices.Contains(p.model.waiters, name); {
		case waits && !ended:
			continue
		case waits || !ended:
			p.t.Errorf("Get %d: ended = %v, want %v", name, ended, !waits)
		case given && got.err != nil:
			p.t.Errorf("Get %d: %v, want %s", name, got.err, want.key)
		case given:
			p.log("Get %d = %s", name, got.item.Key)
			p.compareItem(got.item, want)
		case !errors.Is(got.err, context.Canceled):
			p.t.Errorf("Get %d = %q, %v, want that it was cancelled", name, got.item.Key, got.err)
		}
		w.cancel()
		delete(p.waiters, name)
	}
	if p.next(32) == 0 {
		p.compareSnapshot()
	}
}

// compareSnapshot compares the keys of a full snapshot; what a limit leaves out has a test of its own.
func (p *pair) compareSnapshot() {
	p.t.Helper()
	s := p.queue.Snapshot(1000)
	got, want := map[string]string{}, map[string]string{}
	for _, w := range s.Waiting {
		got[w.Key] = fmt.Sprint(w.State, " ", w.Class, " ", w.Causes)
	}
	for _, k := range slices.Concat(p.model.due, p.model.early) {
		want[k.name] = fmt.Sprint(stateReady, " ", k.class, " ", k.causes)
	}
	for _, k := range p.model.throttled {
		if _, ok := want[k.name]; !ok && !slices.Contains(p.model.running, k) {
			want[k.name] = fmt.Sprint(stateThrottled, " ", Retry, " ", k.later)
		}
	}
	for _, k := range p.model.planned() {
		if _, ok := want[k.name]; ok || slices.Contains(p.model.running, k) {
			continue
		}
		class := Retry
		if next, _ := k.next(); k.plan != nil && *k.plan == next {
			class = Planned
		}
		want[k.name] = fmt.Sprint(stateDelayed, " ", class, " ", k.later)
	}
	for _, r := range s.Running {
		got[r.Key+" runs"] = fmt.Sprint(r.Age, r.Causes)
	}
	for _, k := range p.model.running {
		want[k.name+" runs"] = fmt.Sprint(p.model.now-k.since, k.reasons)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		p.t.Errorf("snapshot differs from the model (-want +got):\n%s", diff)
	}
}

// end checks that shutting down wakes every Get that still waits.
func (p *pair) end() {
	p.queue.ShutDown()
	synctest.Wait()
	for name, w := range p.waiters {
		if got, ended := w.ended(); !ended || !errors.Is(got.err, ErrShutDown) {
			p.t.Errorf("Get %d after ShutDown: ended = %v, error %v", name, ended, got.err)
		}
		w.cancel()
	}
}
