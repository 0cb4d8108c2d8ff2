package setpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// process is one replica whose way to the server can be cut, which can be frozen
// on it, whose wall clock can be set, and which can be killed. It is the
// RoundTripper of its manager.
type process struct {
	name   string
	server *apitest.Server
	m      *setpoint.Manager
	stop   context.CancelFunc
	done   chan error
	// late sends what was frozen between the check of the fence and the
	// sending, even when its context has ended meanwhile: no HTTP client does
	// that, but a frozen machine can.
	late bool

	mu     sync.Mutex
	thaw   chan struct{} // closed when it thaws; nil: not frozen
	cut    bool
	killed bool
	wall   time.Duration
}

var errCut = errors.New("unreachable")

// frozenMark ends the user agent of requests that were sent too late.
const frozenMark = "!"

func newProcess(t *testing.T, server *apitest.Server, name string, options ...func(*setpoint.Config)) *process {
	t.Helper()
	p := &process{name: name, server: server, done: make(chan error, 1)}
	mapper := meta.NewDefaultRESTMapper(nil) // no discovery: client-go waits for it under a lock
	mapper.Add(apitest.ConfigMaps.GroupVersionKind, meta.RESTScopeNamespace)
	mapper.Add(apitest.Leases.GroupVersionKind, meta.RESTScopeNamespace)
	cfg := setpoint.Config{REST: server.REST(), FieldOwner: "test", Seed: 1, Mapper: mapper, GracePeriod: 5 * time.Second}
	cfg.REST.Transport, cfg.REST.UserAgent = p, name
	for _, option := range options {
		option(&cfg)
	}
	var err error
	if p.m, err = setpoint.NewManager(cfg); err != nil {
		t.Fatal(err)
	}
	setpoint.SetWallClock(p.m, func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return time.Now().Add(p.wall)
	})
	return p
}

func (p *process) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.done <- p.m.Run(ctx) }()
}

// end stops the process and waits for it.
func (p *process) end() error {
	p.stop()
	err := <-p.done
	p.done <- err
	return err
}

// kill ends the process as a crash does: nothing that it wants to send is sent
// any more. What then runs on in its goroutines is nobody's.
func (p *process) kill() {
	p.mu.Lock()
	p.killed, p.cut = true, true
	p.mu.Unlock()
	p.unfreeze()
	p.stop()
}

func (p *process) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut || p.killed
}

func (p *process) step(wall time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wall += wall
}

func (p *process) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw == nil {
		p.thaw = make(chan struct{})
	}
}

func (p *process) unfreeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.thaw != nil {
		close(p.thaw)
		p.thaw = nil
	}
}

func (p *process) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw != nil
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// pass is a point at which a frozen process stands still. It fails when the way
// is cut.
func (p *process) pass() error {
	p.mu.Lock()
	thaw := p.thaw
	p.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return errCut
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		if !p.late || req.Method == http.MethodGet {
			return nil, err
		}
		req = req.Clone(context.WithoutCancel(req.Context()))
		req.Header.Set("User-Agent", p.name+frozenMark)
	}
	resp, err := p.server.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := p.pass(); err != nil {
		resp.Body.Close()
		return nil, err // it was served, but nobody learns of it
	}
	resp.Body = &processBody{resp.Body, p}
	return resp, nil
}

// processBody is the body of an answer, above all of a watch.
type processBody struct {
	io.ReadCloser
	p *process
}

func (b *processBody) Read(data []byte) (int, error) {
	if err := b.p.pass(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(data)
	if passErr := b.p.pass(); passErr != nil {
		return 0, passErr
	}
	return n, err
}

// judge follows the server's log: who holds which Lease, and whose writes arrive
// while another one holds the lease that they need.
type judge struct {
	t *testing.T
	// leaseOf names the Lease that writes of an object need.
	leaseOf func(object string) string

	mu        sync.Mutex
	holders   map[string]string    // by Lease; "": released
	last      map[string]string    // the last that was not ""
	since     map[string]time.Time // when the last holder took it
	moves     int                  // how often a Lease came to another holder
	writes    map[string]int       // by who sent them
	lastWrite map[string]time.Time
	firstTime map[string]time.Time // by who sent them
	residual  int
	longest   time.Duration // that a late write came after the take-over
}

func newJudge(t *testing.T, server *apitest.Server, leaseOf func(string) string) *judge {
	j := &judge{t: t, leaseOf: leaseOf, holders: map[string]string{}, last: map[string]string{}, since: map[string]time.Time{},
		writes: map[string]int{}, lastWrite: map[string]time.Time{}, firstTime: map[string]time.Time{}}
	server.Audit(j.note)
	return j
}

// note is told of each request after it was served, in order.
func (j *judge) note(q apitest.Request, o apitest.Outcome) {
	if q.Verb == "get" || q.Verb == "list" || q.Verb == "watch" || q.UserAgent == "" || strings.HasPrefix(q.UserAgent, "test") {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case q.Resource == "leases" && o.Code == http.StatusOK:
		j.leased(q, o.Name)
	case q.Resource == "configmaps":
		j.wrote(q)
	}
}

func (j *judge) leased(q apitest.Request, name string) {
	if q.Verb == "delete" {
		return
	}
	obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode([]byte(q.Body), nil, &coordinationv1.Lease{})
	if err != nil {
		j.t.Errorf("%v: %v", q, err)
		return
	}
	holder := *obj.(*coordinationv1.Lease).Spec.HolderIdentity
	j.holders[name] = holder
	if holder != "" && holder != j.last[name] {
		if j.last[name] != "" {
			j.moves++
		}
		j.last[name], j.since[name] = holder, time.Now()
	}
}

func (j *judge) wrote(q apitest.Request) {
	name := strings.TrimSuffix(q.UserAgent, frozenMark)
	lease := j.leaseOf(q.Name)
	j.writes[name]++
	j.lastWrite[name] = time.Now()
	if j.firstTime[name].IsZero() {
		j.firstTime[name] = time.Now()
	}
	if j.holders[lease] == name {
		return
	}
	if strings.HasSuffix(q.UserAgent, frozenMark) {
		j.residual++
		if j.holders[lease] != "" {
			j.longest = max(j.longest, time.Since(j.since[lease]))
		}
		return
	}
	j.t.Errorf("at %v %v of %s arrives while %s is held by %q since %v", time.Now(), q, name, lease, j.holders[lease], time.Since(j.since[lease]))
}

func (j *judge) total() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, writes := range j.writes {
		n += writes
	}
	return n
}

// first returns when a process wrote first; zero: never.
func (j *judge) first(name string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.firstTime[name]
}

func numbered(n int) *corev1.ConfigMap { return configMap("default", fmt.Sprintf("object-%05d", n)) }
