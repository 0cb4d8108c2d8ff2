package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

const host = "hooks.ops.svc"

var (
	validatingKind = apitest.Kind{GroupVersionKind: admission.WithKind("ValidatingWebhookConfiguration"), Resource: "validatingwebhookconfigurations", ClusterScoped: true}
	mutatingKind   = apitest.Kind{GroupVersionKind: admission.WithKind("MutatingWebhookConfiguration"), Resource: "mutatingwebhookconfigurations", ClusterScoped: true}
	crdKind        = apitest.Kind{GroupVersionKind: extensions.WithKind("CustomResourceDefinition"), Resource: "customresourcedefinitions", ClusterScoped: true}
)

// cluster is an API server with one target of each kind.
func cluster() *apitest.Server {
	s := apitest.New(apitest.Secrets, validatingKind, mutatingKind, crdKind)
	hook := func(name string) any {
		return map[string]any{"name": name, "clientConfig": map[string]any{"service": map[string]any{"name": "hooks", "namespace": "ops"}}, "futureField": "stays"}
	}
	put := func(kind apitest.Kind, field string, value any) {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "mine"}, field: value}}
		u.SetGroupVersionKind(kind.GroupVersionKind)
		apitest.Put(s, u)
	}
	put(validatingKind, "webhooks", []any{hook("a.example.com"), hook("b.example.com")})
	put(mutatingKind, "webhooks", []any{hook("c.example.com")})
	put(crdKind, "spec", map[string]any{"group": "example.com", "conversion": map[string]any{"strategy": "Webhook", "webhook": hook("d")}})
	return s
}

// bundles returns the CA bundle of each webhook, sorted by target.
func bundles(t *testing.T, s *apitest.Server) []string {
	t.Helper()
	var all []string
	for _, kind := range []apitest.Kind{validatingKind, mutatingKind, crdKind} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "mine"}}}
		u.SetGroupVersionKind(kind.GroupVersionKind)
		if !s.Get(u) {
			continue
		}
		configs, err := clientConfigs(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, config := range configs {
			text, _ := config["caBundle"].(string)
			bundle, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(bundle))
		}
	}
	return all
}

func sharedSecret(t *testing.T, s *apitest.Server) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "hooks"}}
	if !s.Get(secret) {
		t.Fatal("there is no Secret")
	}
	return secret
}

// newReplica returns an authority that reaches the server by transport.
func newReplica(t *testing.T, s *apitest.Server, transport http.RoundTripper, change func(*AuthorityConfig)) *Authority {
	t.Helper()
	config := s.REST()
	config.Transport = transport
	// A scheme that knows nothing: programs bring their own.
	c, err := client.New(client.Config{REST: config, Scheme: runtime.NewScheme(), FieldOwner: "hooks"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := AuthorityConfig{
		Client: c, Namespace: "ops", Name: "hooks", Hosts: []string{host},
		Validating: []string{"mine"}, Mutating: []string{"mine"}, CRDs: []string{"mine"},
	}
	if change != nil {
		change(&cfg)
	}
	a, err := NewAuthority(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// runs runs an authority; stop ends it and waits.
func runs(t *testing.T, a *Authority) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the authority ended with %v", err)
		}
	})
}

// trusts reports whether an API server with a bundle accepts a certificate.
func trusts(bundle string, cert *tls.Certificate) error {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: host, CurrentTime: time.Now()}
	options.Roots.AppendCertsFromPEM([]byte(bundle))
	for _, der := range cert.Certificate[1:] {
		link, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		options.Intermediates.AddCert(link)
	}
	_, err := cert.Leaf.Verify(options)
	return err
}

func served(t *testing.T, a *Authority) *tls.Certificate {
	t.Helper()
	cert, err := a.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func leaf(t *testing.T, a *Authority) *x509.Certificate {
	t.Helper()
	return served(t, a).Leaf
}

// allTrust checks that all webhooks trust the authority's certificate, and returns their bundles.
func allTrust(t *testing.T, s *apitest.Server, a *Authority) []string {
	t.Helper()
	all := bundles(t, s)
	if len(all) != 4 {
		t.Fatalf("%d webhooks", len(all))
	}
	for i, bundle := range all {
		if err := trusts(bundle, served(t, a)); err != nil {
			t.Errorf("webhook %d: %v", i, err)
		}
	}
	return all
}

func TestAuthorityStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cluster()
		a := newReplica(t, s, s, nil)
		if _, err := a.Check(); err == nil || !strings.Contains(err.Error(), "no certificate yet") {
			t.Errorf("ready before it ran: %v", err)
		}
		if len(s.Requests()) > 0 {
			t.Error("it asked for something before it ran")
		}
		stop := runs(t, a)
		defer stop()
		synctest.Wait()
		if detail, err := a.Check(); err != nil || detail != "certificate expires at 2000-03-31T00:00:00Z" {
			t.Errorf("not ready: %q, %v", detail, err)
		}
		all := allTrust(t, s, a)
		secret := sharedSecret(t, s)
		if secret.Type != corev1.SecretTypeTLS || string(secret.Data["ca.crt"]) != all[0] || !bytes.Equal(secret.Data["tls.crt"], encodeCerts(leaf(t, a))) {
			t.Errorf("Secret of type %s differs from what is used", secret.Type)
		}
		// What others put into a target stays.
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "mine"}}}
		u.SetGroupVersionKind(crdKind.GroupVersionKind)
		s.Get(u)
		if value, _, _ := unstructured.NestedString(u.Object, "spec", "conversion", "webhook", "futureField"); value != "stays" {
			t.Errorf("target %v", u.Object)
		}
		// Nothing to do: nothing is written.
		s.Requests()
		time.Sleep(time.Hour)
		for _, r := range s.Requests() {
			if r.Verb != "get" && r.Verb != "discover" {
				t.Errorf("idle, yet it sent %v", r)
			}
		}
	})
}

// Someone replaces a configuration, and a CRD arrives later.
func TestAuthorityHealsTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cluster()
		late := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "mine"}}}
		late.SetGroupVersionKind(crdKind.GroupVersionKind)
		s.Get(late)
		s.Delete(late)
		a := newReplica(t, s, s, nil)
		stop := runs(t, a)
		defer stop()
		synctest.Wait()
		if _, err := a.Check(); err != nil {
			t.Errorf("not ready although only a target is missing: %v", err)
		}
		late.SetResourceVersion("")
		late.SetUID("")
		apitest.Put(s, late)
		replaced := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "mine"},
			"webhooks": []any{map[string]any{"name": "new", "clientConfig": map[string]any{"url": "https://" + host, "caBundle": "Cg=="}}},
		}}
		replaced.SetGroupVersionKind(mutatingKind.GroupVersionKind)
		apitest.Put(s, replaced)
		time.Sleep(defaultInterval)
		synctest.Wait()
		allTrust(t, s, a)
	})
}

// A target that cannot be written is named, and its API server trusts what is
// served for as long as the CA lives that it knows.
func TestAuthorityWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cluster()
		forbid := func(r apitest.Request) error {
			if r.Resource == crdKind.Resource && r.Verb == "update" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, r.Name, errors.New("no Role"))
			}
			return nil
		}
		s.Intercept(forbid)
		var log bytes.Buffer
		a := newReplica(t, s, s, func(c *AuthorityConfig) {
			c.CALifetime, c.Lifetime, c.RotateAt = 100*time.Hour, 100*time.Hour, 0.5
			c.Interval = 15 * time.Minute
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		stop := runs(t, a)
		defer stop()
		synctest.Wait()
		if _, err := a.Check(); err == nil || !strings.Contains(err.Error(), "no Role") || !strings.Contains(err.Error(), "not been injected") {
			t.Errorf("check says %v", err)
		}
		first := leaf(t, a)
		s.Intercept(nil)
		time.Sleep(time.Hour)
		if _, err := a.Check(); err != nil {
			t.Errorf("not ready after it healed: %v", err)
		}
		s.Intercept(forbid)
		time.Sleep(98 * time.Hour)
		all := bundles(t, s)
		if all[3] == all[0] || leaf(t, a).Equal(first) {
			t.Fatal("nothing was rotated, or the forbidden target was")
		}
		if err := trusts(all[3], served(t, a)); err != nil {
			t.Errorf("the target that nobody may write does not trust the next CA: %v", err)
		}
		if detail, err := a.Check(); err != nil || !strings.Contains(detail, "no Role") {
			t.Errorf("check says %q, %v; want ready, and why it is not renewed", detail, err)
		}
		if n := strings.Count(log.String(), "no Role"); n != 2 {
			t.Errorf("the problem was logged %d times, want once each time that it began:\n%s", n, &log)
		}
		s.Intercept(nil)
		time.Sleep(time.Hour)
		allTrust(t, s, a)
	})
}

// Replicas of two releases need different hosts and do not fight.
func TestAuthorityHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cluster()
		a := newReplica(t, s, s, nil)
		b := newReplica(t, s, s, func(c *AuthorityConfig) { c.Hosts = []string{"New.ops.svc", "0:0:0:0:0:0:0:1"} })
		defer runs(t, a)()
		defer runs(t, b)()
		time.Sleep(time.Minute)
		cert := leaf(t, a)
		for _, host := range []string{host, "new.ops.svc", "::1"} {
			if err := cert.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if !leaf(t, a).Equal(cert) || !leaf(t, b).Equal(cert) {
			t.Error("the replicas replace each other's certificate")
		}
	})
}

// A Secret of somebody else is not overwritten, one that is empty is used.
func TestAuthoritySecretOfOthers(t *testing.T) {
	for data, ok := range map[string]bool{"": true, "-----BEGIN CERTIFICATE-----": false} {
		synctest.Test(t, func(t *testing.T) {
			s := cluster()
			apitest.Put(s, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "hooks"}, Data: map[string][]byte{"tls.crt": []byte(data)}})
			a := newReplica(t, s, s, nil)
			defer runs(t, a)()
			time.Sleep(time.Minute)
			_, err := a.Check()
			if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), "secret ops/hooks cannot be used")) {
				t.Errorf("with %q: %v", data, err)
			}
			if got := string(sharedSecret(t, s).Data["tls.crt"]); !ok && got != data {
				t.Errorf("it was overwritten with %q", got)
			}
		})
	}
}

// All replicas were down for longer than a CA lives.
func TestAuthorityAfterALongSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cluster()
		stop := runs(t, newReplica(t, s, s, nil))
		synctest.Wait()
		stop()
		time.Sleep(2 * defaultCALifetime)
		a := newReplica(t, s, s, nil)
		defer runs(t, a)()
		synctest.Wait()
		if err := trusts(bundles(t, s)[0], served(t, a)); err != nil {
			t.Error(err)
		}
	})
}

func TestAuthorityConfig(t *testing.T) {
	_, err := NewAuthority(AuthorityConfig{Hosts: []string{""}, RotateAt: 2, Interval: -1, Lifetime: 2 * defaultCALifetime})
	for _, want := range []string{"no Client", "no Name", "no Namespace", "no Hosts", "RotateAt 2", "invalid Interval -1ns", "no longer than CALifetime"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	s := cluster()
	_, err = NewAuthority(AuthorityConfig{Client: newReplica(t, s, s, nil).cfg.Client, Namespace: "a", Name: "b", Hosts: []string{host}, CALifetime: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "longer lifetimes") {
		t.Errorf("error %v: there is no time to rotate", err)
	}
}

// partition cuts a replica off while it is closed.
type partition struct {
	next http.RoundTripper

	mu     sync.Mutex
	closed bool
}

func (p *partition) set(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = closed
}

func (p *partition) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, errors.New("cut off")
	}
	return p.next.RoundTrip(req)
}

// admissions judges what API servers would see: one that learns of a bundle at
// once, and one that learns of it late.
type admissions struct {
	lag     time.Duration
	history []struct {
		at      time.Time
		bundles []string
	}
	verified    map[string]error
	authorities map[string]bool // all CAs ever seen in a bundle
	gone        map[string]bool
}

// observe records the bundles and returns what is wrong with them.
func (j *admissions) observe(t *testing.T, now []string) {
	t.Helper()
	j.history = append(j.history, struct {
		at      time.Time
		bundles []string
	}{time.Now(), now})
	present := map[string]bool{}
	for _, bundle := range now {
		certs, err := decodeCerts([]byte(bundle))
		if err != nil {
			t.Fatal(err)
		}
		if len(certs) > 3 {
			t.Errorf("a bundle of %d CAs", len(certs))
		}
		for _, cert := range certs {
			serial := cert.SerialNumber.String()
			present[serial], j.authorities[serial] = true, true
			if j.gone[serial] {
				t.Errorf("at %v CA %s is back", time.Now(), serial)
			}
		}
	}
	for serial := range j.authorities {
		if !present[serial] {
			j.gone[serial] = true
		}
	}
}

// admit has every API server call every webhook at a replica.
func (j *admissions) admit(name string, cert *tls.Certificate) error {
	now, leaf := time.Now(), cert.Leaf
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("%s serves a certificate that expired at %v", name, leaf.NotAfter)
	}
	for _, lag := range []time.Duration{0, j.lag} {
		seen := j.history[0].bundles
		for _, h := range slices.Backward(j.history) {
			if !h.at.After(now.Add(-lag)) {
				seen = h.bundles
				break
			}
		}
		for i, bundle := range seen {
			id := bundle + leaf.SerialNumber.String()
			err, known := j.verified[id]
			if !known {
				err = trusts(bundle, cert)
				j.verified[id] = err
			}
			if err != nil {
				return fmt.Errorf("%s: webhook %d, seen %v late: %w", name, i, lag, err)
			}
		}
	}
	return nil
}

// Replicas that come and go, are cut off and meet faults rotate some CAs a day,
// and there is no moment at which an API server would not trust one of them.
func TestRotationFailsNoAdmission(t *testing.T) {
	const replicas, interval, caLifetime = 3, 5 * time.Minute, 12 * time.Hour
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				s := cluster()
				faults := apitest.NewFaults(seed, s, func(string, apitest.Fault) {})
				type replica struct {
					*Authority
					stop func()
					link *partition
					back time.Time // when it is no longer cut off
				}
				start := func() *replica {
					link := &partition{next: faults}
					a := newReplica(t, s, link, func(c *AuthorityConfig) {
						c.CALifetime, c.Lifetime, c.RotateAt, c.Interval = caLifetime, 4*time.Hour, 0.5, interval
					})
					return &replica{Authority: a, link: link, stop: runs(t, a)}
				}
				var all []*replica
				for range replicas {
					all = append(all, start())
				}
				defer func() {
					for _, r := range all {
						r.stop()
					}
				}()
				synctest.Wait()
				judge := &admissions{lag: 5 * time.Hour, verified: map[string]error{}, authorities: map[string]bool{}, gone: map[string]bool{}}
				for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); time.Sleep(2 * time.Minute) {
					synctest.Wait()
					judge.observe(t, bundles(t, s))
					for i, r := range all {
						cert, err := r.Certificate()
						if err != nil {
							continue // it has just started: it is not ready, and gets no requests
						}
						if err := judge.admit(fmt.Sprint("replica ", i), cert); err != nil {
							t.Fatalf("at %v: %v", time.Now(), err)
						}
					}
					faults.SetRate(0.05)
					i := random.IntN(replicas)
					switch r := all[i]; {
					case !r.back.IsZero() && time.Now().After(r.back):
						r.link.set(false)
						r.back = time.Time{}
					case r.back.IsZero() && random.IntN(60) == 0:
						// For as long as a certificate is good for at least.
						r.link.set(true)
						r.back = time.Now().Add(time.Duration(random.IntN(60)) * time.Minute)
					case random.IntN(120) == 0:
						r.stop()
						all[i] = start()
					}
				}
				if len(judge.authorities) < 4 || len(judge.gone) < 2 {
					t.Errorf("%d CAs were used and %d left in 24 hours: that is not what was to be tested", len(judge.authorities), len(judge.gone))
				}
				// In peace, all agree.
				faults.SetRate(0)
				for _, r := range all {
					r.link.set(false)
				}
				time.Sleep(3 * interval)
				synctest.Wait()
				for i, r := range all {
					if !leaf(t, r.Authority).Equal(leaf(t, all[0].Authority)) {
						t.Errorf("replica %d serves another certificate than replica 0", i)
					}
				}
			})
		})
	}
}

// The rules by which a keyring changes, without any I/O.
func TestPolicy(t *testing.T) {
	p := policy{name: "x", hosts: []string{host}, caLifetime: 100 * time.Hour, lifetime: 40 * time.Hour, rotateAt: 0.5}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k, _, err := p.advance(nil, begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		why  string
		at   time.Duration // since begin
		want string
	}{
		{"nothing is due", 19 * time.Hour, ""},
		{"half of the serving certificate's life", 20 * time.Hour, "made a serving certificate: its time had come"},
		{"not again", 20 * time.Hour, ""},
		{"half of the CA's life", 50 * time.Hour, "made the next certificate authority; made a serving certificate: there is a new certificate authority"},
		{"the old CA may still be needed", 69 * time.Hour, ""},
		{"it has expired", 100 * time.Hour, "dropped an expired certificate authority; made the next certificate authority; made a serving certificate: there is a new certificate authority"},
		{"nobody was there at all", 1000 * time.Hour, "made a certificate authority, as the last had expired"},
	} {
		next, steps, err := p.advance(k, begin.Add(step.at))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(steps, "; "); got != step.want {
			t.Errorf("%s: %q, want %q", step.why, got, step.want)
		}
		k = next
		// What is stored is what is read.
		data, err := k.encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := decodeKeyring(data)
		if err != nil {
			t.Fatalf("%s: %v", step.why, err)
		}
		if !bytes.Equal(read.bundle(), k.bundle()) || !bytes.Equal(encodeCerts(read.chain()...), encodeCerts(k.chain()...)) {
			t.Errorf("%s: the keyring is not what was stored", step.why)
		}
	}
}
