package setpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/lease"
)

// elects makes a process a replica of that name.
func elects(name string) func(*setpoint.Config) {
	return func(c *setpoint.Config) { c.LeaderElection = &lease.Config{Namespace: "default", Identity: name} }
}

// writing declares a controller that writes its object three times in each
// reconcile, with pauses between, heeds no context, and plans itself again.
func (p *process) writing(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	setpoint.For[*corev1.ConfigMap](p.m, "writing").
		Reconcile(func(ctx context.Context, o *corev1.ConfigMap) (setpoint.Result, error) {
			for range 3 {
				time.Sleep(time.Duration(random.Int64N(int64(700 * time.Millisecond))))
				if err := p.m.Client().Patch(context.WithoutCancel(ctx), o, merge(`{"data":{%q:"%d"}}`, p.name, random.Uint64())); err != nil {
					return setpoint.Result{}, err
				}
			}
			return setpoint.Result{RequeueAfter: time.Second}, nil
		})
}

// envNumber returns the number that a variable holds, or the default.
func envNumber(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Three replicas of one election go through random schedules of freezes, cut
// connections, steps of the wall clock, crashes and restarts. Judged by the
// server's log no write arrives while its sender does not hold the Lease, but
// for those of a process that was frozen between the check and the sending: that
// is the residual window, and it is measured.
//
// SETPOINT_SEED repeats one schedule; SETPOINT_SCHEDULES says how many there are.
func TestElectionSchedules(t *testing.T) {
	schedules := envNumber(t, "SETPOINT_SCHEDULES", 8)
	first := seedFromEnv(t)
	if os.Getenv("SETPOINT_SEED") != "" {
		schedules = 1
	}
	var writes, moves, residual int
	var longest time.Duration
	for n := range schedules {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				j := electionSchedule(t, seed)
				writes, moves, residual, longest = writes+j.total(), moves+j.moves, residual+j.residual, max(longest, j.longest)
				if t.Failed() {
					t.Logf("SETPOINT_SEED=%d repeats it", seed)
				}
			})
		})
	}
	t.Logf("%d schedules from seed %d: %d writes, %d changes of the holder, %d writes of processes frozen between check and sending, up to %v after another took over",
		schedules, first, writes, moves, residual, longest)
	if moves == 0 && schedules > 1 || writes == 0 {
		t.Error("nothing happened")
	}
}

func electionSchedule(t *testing.T, seed uint64) *judge {
	random := rand.New(rand.NewPCG(seed, 0))
	server := apitest.New(apitest.ConfigMaps, apitest.Leases)
	for n := range 2 {
		apitest.Put(server, numbered(n))
	}
	j := newJudge(t, server, func(string) string { return "test" })
	started := 0
	begin := func() *process {
		started++
		name := fmt.Sprint("r", started)
		p := newProcess(t, server, name, elects(name), func(c *setpoint.Config) { c.Seed = seed + uint64(started) })
		p.late = true
		p.writing(seed + uint64(started))
		p.start()
		return p
	}
	var processes, gone []*process
	for range 3 {
		processes = append(processes, begin())
	}
	for start := time.Now(); time.Since(start) < 2*time.Minute; {
		time.Sleep(time.Duration(random.ExpFloat64() * float64(4*time.Second)))
		i := random.IntN(len(processes))
		p, length := processes[i], time.Duration(random.Int64N(int64(30*time.Second)))
		switch random.IntN(7) {
		case 0, 1:
			p.freeze()
			time.AfterFunc(length, p.unfreeze)
		case 2, 3:
			p.setCut(true)
			time.AfterFunc(length, func() { p.setCut(false) })
		case 4:
			p.step(time.Duration(random.Int64N(int64(2*time.Hour))) - time.Hour)
		case 5:
			p.kill()
			gone, processes[i] = append(gone, p), begin()
		case 6:
			p.stop()
			gone, processes[i] = append(gone, p), begin()
		}
	}
	for _, p := range slices.Concat(processes, gone) {
		p.unfreeze()
		p.setCut(false)
		p.stop()
	}
	time.Sleep(time.Minute) // the functions that end freezes and cuts, too
	for _, p := range slices.Concat(processes, gone) {
		if err := p.end(); err != nil {
			t.Logf("%s: %v", p.name, err)
		}
	}
	return j
}

// How long nobody writes when the leader stops, and when it crashes.
func TestFailOver(t *testing.T) {
	for _, how := range []string{"stop", "crash"} {
		var least, most, sum time.Duration
		const runs = 6
		for run := range runs {
			bubble(t, func(t *testing.T) {
				server := apitest.New(apitest.ConfigMaps, apitest.Leases)
				apitest.Put(server, numbered(0))
				j := newJudge(t, server, func(string) string { return "test" })
				var a, b *process
				for i, p := range []**process{&a, &b} {
					name := string(rune('a' + i))
					*p = newProcess(t, server, name, elects(name), func(c *setpoint.Config) { c.Seed = uint64(run + 1) })
					(*p).writing(uint64(run))
					(*p).start()
					settle(time.Second)
				}
				settle(10*time.Second + time.Duration(run)*433*time.Millisecond)
				from := time.Now()
				if how == "stop" {
					a.stop()
				} else {
					a.kill()
				}
				settle(25 * time.Second)
				took := j.first("b").Sub(from)
				sum, most = sum+took, max(most, took)
				if least == 0 || took < least {
					least = took
				}
				limit := lease.DefaultDuration + 2*lease.DefaultRetryPeriod
				if how == "stop" {
					limit = 3*lease.DefaultRetryPeriod + 2*time.Second // what runs is brought to its end first
				}
				if took < 0 || took > limit {
					t.Errorf("%s: b writes %v after a is gone, want less than %v", how, took, limit)
				}
				for _, p := range []*process{a, b} {
					if err := p.end(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		t.Logf("fail-over by %s: %v to %v, %v on average", how, least, most, sum/runs)
	}
}
