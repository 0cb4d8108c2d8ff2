package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
	"github.com/setpoint-dev/setpoint/owner"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// TestSoakOnPlane runs the operator of Websites against a plane under churn, while its requests fail, answers get
// lost and its watches break. When that ends, all must converge, and then nothing more be written. The root
// package's TestSoak is the larger one, against a server in memory.
//
// SETPOINT_SEED, SETPOINT_SOAK_OBJECTS and SETPOINT_SOAK_TIME are those of that test.
func TestSoakOnPlane(t *testing.T) {
	s := &soak{
		seed:   fromEnv(t, "SETPOINT_SEED", rand.Uint64()>>16, func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }),
		sites:  fromEnv(t, "SETPOINT_SOAK_OBJECTS", 15, strconv.Atoi),
		length: fromEnv(t, "SETPOINT_SOAK_TIME", 2*time.Minute, time.ParseDuration),
	}
	t.Logf("SETPOINT_SEED=%d: %d objects, %v", s.seed, s.sites, s.length)
	synctest.Test(t, func(t *testing.T) {
		s.T = t
		s.run()
	})
}

func fromEnv[V any](t *testing.T, name string, otherwise V, parse func(string) (V, error)) V {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

type soak struct {
	*testing.T
	seed   uint64
	sites  int
	length time.Duration

	rand    *rand.Rand
	user    *client.Client
	records *dns
	faults  *apitest.Faults

	mu  sync.Mutex
	met map[apitest.Fault]int
}

func (s *soak) run() {
	s.rand, s.met = rand.New(rand.NewPCG(s.seed, 0)), map[apitest.Fault]int{}
	p := planetest.New(s.T)
	planetest.Apply(s.T, p, "testdata/websites.yaml")
	sent := s.start(p)
	s.churn()

	s.faults.SetRate(0)
	time.Sleep(20 * time.Minute) // the longest back-offs have to pass
	s.check()
	sent.take()
	s.faults.CutWatches()
	time.Sleep(5 * time.Minute)
	for _, line := range sent.take() {
		if line[:3] != "GET" && line[:5] != "WATCH" {
			s.Errorf("all was done, but it sent %s", line)
		}
	}
	for _, fault := range apitest.AllFaults() {
		s.Logf("fault %q: %d requests", fault, s.met[fault])
	}
}

// start runs the operator, behind the faults.
func (s *soak) start(p planetest.Cluster) *requestLog {
	scheme, err := websiteScheme()
	if err != nil {
		s.Fatal(err)
	}
	sent := &requestLog{}
	config := p.RESTConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		s.faults = apitest.NewFaults(s.seed, sent.wrap(next), func(_ string, met apitest.Fault) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.met[met]++
		})
		return s.faults
	})
	m, err := setpoint.NewManager(setpoint.Config{REST: config, Scheme: scheme, FieldOwner: "website-operator", Seed: s.seed})
	if err != nil {
		s.Fatal(err)
	}
	s.records = &dns{records: map[string]bool{}}
	addWebsites(m, s.records)
	begin(s.T, m)
	if s.user, err = client.New(client.Config{REST: p.RESTConfig(), Scheme: scheme, FieldOwner: "test"}); err != nil {
		s.Fatal(err)
	}
	s.faults.SetRate(0.08)
	return sent
}

// churn lets things happen; each minute the connections break.
func (s *soak) churn() {
	start := time.Now()
	for n := range s.sites {
		s.create(n)
	}
	for minute := 1; time.Since(start) < s.length; {
		if time.Since(start) >= time.Duration(minute)*time.Minute {
			s.faults.CutWatches()
			minute++
		}
		s.meddle()
		time.Sleep(time.Duration(s.rand.ExpFloat64() * float64(500*time.Millisecond)))
	}
}

func siteName(n int) string { return fmt.Sprintf("site-%04d", n) }

func (s *soak) create(n int) {
	site := &Website{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Website"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: siteName(n)},
		Spec:       WebsiteSpec{Host: siteName(n) + ".example.com", Replicas: 1},
	}
	if err := s.user.Create(s.Context(), site); err != nil {
		s.Fatal(err)
	}
}

// meddle changes something about one site.
func (s *soak) meddle() {
	n := s.rand.IntN(s.sites)
	site := &Website{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Website"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: siteName(n)},
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: siteName(n)}}
	err := s.user.Get(s.Context(), client.KeyOf(site), site)
	replicas := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, s.rand.IntN(3)))
	switch chance := s.rand.IntN(100); {
	case apierrors.IsNotFound(err):
		s.create(n)
		return
	case site.DeletionTimestamp != nil:
		return
	case chance < 40:
		err = s.user.Patch(s.Context(), site, replicas)
	case chance < 65:
		err = s.user.Patch(s.Context(), deployment, replicas)
	case chance < 80:
		err = s.user.Delete(s.Context(), deployment)
	default:
		err = s.user.Delete(s.Context(), site)
	}
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
}

// check compares what is with what is wanted.
func (s *soak) check() {
	var sites WebsiteList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&sites, &deployments} {
		if err := s.user.List(s.Context(), list, client.InNamespace("default")); err != nil {
			s.Fatal(err)
		}
	}
	for i := range sites.Items {
		site := &sites.Items[i]
		at := slices.IndexFunc(deployments.Items, func(d appsv1.Deployment) bool { return owner.IsControlledBy(&d, site) })
		switch {
		case site.DeletionTimestamp != nil:
			s.Errorf("%s: still being deleted", site.Name)
		case at < 0:
			s.Errorf("%s: has no Deployment", site.Name)
		case *deployments.Items[at].Spec.Replicas != site.Spec.Replicas:
			s.Errorf("%s: the Deployment has %d replicas, want %d", site.Name, *deployments.Items[at].Spec.Replicas, site.Spec.Replicas)
		case site.Status.ObservedGeneration != site.Generation || site.Status.Ready != site.Spec.Replicas:
			s.Errorf("%s: the status is %+v at generation %d, want %d ready", site.Name, site.Status, site.Generation, site.Spec.Replicas)
		case !s.records.has(site.Spec.Host):
			s.Errorf("%s: has no DNS record", site.Name)
		}
	}
	if len(deployments.Items) != len(sites.Items) || len(s.records.records) != len(sites.Items) {
		s.Errorf("%d sites have %d Deployments and %d DNS records", len(sites.Items), len(deployments.Items), len(s.records.records))
	}
}
