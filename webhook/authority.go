package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/client"
)

// The times of an Authority when its configuration does not set them.
const (
	defaultCALifetime = 365 * 24 * time.Hour
	defaultLifetime   = 90 * 24 * time.Hour
	defaultRotateAt   = 2. / 3
	defaultInterval   = 10 * time.Second
)

// podNamespaceFile holds the namespace of the Pod that a process runs in.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// AuthorityConfig configures an Authority.
type AuthorityConfig struct {
	// Client reads and writes the Secret and the targets, whatever its scheme.
	Client *client.Client
	// Namespace and Name say which Secret the replicas share. It is made when it
	// does not exist, and nobody else may write it. An empty Namespace is the
	// namespace of the Pod that the program runs in, and an error elsewhere.
	Namespace, Name string
	// Hosts are the names and IP addresses by which API servers reach the
	// webhooks: of a Service "name.namespace.svc", of a URL its host.
	Hosts []string

	// Validating, Mutating and CRDs name the targets, into which the CA bundle is
	// injected: ValidatingWebhookConfigurations, MutatingWebhookConfigurations
	// (all of their webhooks) and CustomResourceDefinitions with a conversion
	// webhook. One that does not exist is injected into when it arrives.
	Validating, Mutating, CRDs []string

	// CALifetime and Lifetime are those of a CA and of a serving certificate. Zero:
	// a year and 90 days.
	CALifetime, Lifetime time.Duration
	// RotateAt is the share of its lifetime after which a certificate is replaced,
	// from 0.1 to below 1. What is left of a CA's life then is the time in which
	// API servers must see the bundle with the next one. Zero: two thirds.
	RotateAt float64
	// Interval is the time between two looks at the Secret and the targets, and so
	// the time in which a bundle that somebody removed returns. Zero: 10 seconds.
	Interval time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// complete returns c with its zero values filled in, or all that is wrong with it.
func (c AuthorityConfig) complete() (AuthorityConfig, error) {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("no Client"))
	}
	if c.Name == "" {
		errs = append(errs, errors.New("no Name for the Secret"))
	}
	if c.Namespace == "" {
		data, err := os.ReadFile(podNamespaceFile)
		if c.Namespace = strings.TrimSpace(string(data)); c.Namespace == "" {
			errs = append(errs, fmt.Errorf("no Namespace, and none found in a Pod's service account: %w", err))
		}
	}
	if len(c.Hosts) == 0 || slices.Contains(c.Hosts, "") {
		errs = append(errs, errors.New("no Hosts, or an empty one: API servers would not trust the certificate"))
	}
	c.Hosts = slices.Clone(c.Hosts)
	for i, host := range c.Hosts {
		c.Hosts[i] = strings.ToLower(host)
		if ip := net.ParseIP(host); ip != nil {
			c.Hosts[i] = ip.String() // one spelling, as certificates have it
		}
	}
	c.CALifetime = cmp.Or(c.CALifetime, defaultCALifetime)
	c.Lifetime = cmp.Or(c.Lifetime, min(defaultLifetime, c.CALifetime))
	c.RotateAt = cmp.Or(c.RotateAt, defaultRotateAt)
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	if c.RotateAt < 0.1 || c.RotateAt >= 1 {
		errs = append(errs, fmt.Errorf("RotateAt %v is not from 0.1 to below 1", c.RotateAt))
	}
	if c.Interval <= 0 {
		errs = append(errs, fmt.Errorf("invalid Interval %v: it must be positive", c.Interval))
	}
	if c.Lifetime <= 0 || c.Lifetime > c.CALifetime {
		errs = append(errs, fmt.Errorf("invalid Lifetime %v: it must be positive and no longer than CALifetime %v", c.Lifetime, c.CALifetime))
	}
	if left := time.Duration((1 - c.RotateAt) * float64(min(c.Lifetime, c.CALifetime))); left <= 2*c.Interval {
		errs = append(errs, fmt.Errorf("certificates live for %v after they are replaced, which is not longer than two Intervals of %v: use longer lifetimes or an earlier RotateAt", left, c.Interval))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// Authority makes the certificates of a server by itself: a CA, serving
// certificates, and their successors in time. The package comment has its laws,
// and docs/webhooks.md the rights that it needs.
type Authority struct {
	cfg     AuthorityConfig
	log     *slog.Logger
	policy  policy
	targets []target
	current current
	// injected says whether all targets carried the bundle once.
	injected atomic.Bool

	// The rest belongs to the goroutine of Run.
	read    *keyring // what was in the Secret at the last look
	version string   // the Secret's UID and resourceVersion then
	problem string   // the last one logged
}

// NewAuthority checks the configuration, all at once, and returns an authority
// that sends no request before it runs.
func NewAuthority(cfg AuthorityConfig) (*Authority, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("webhook authority: %w", err)
	}
	a := &Authority{
		cfg: cfg,
		log: cfg.Logger.With("secret", cfg.Namespace+"/"+cfg.Name),
		policy: policy{
			name:  "webhooks of " + cfg.Namespace + "/" + cfg.Name,
			hosts: cfg.Hosts, caLifetime: cfg.CALifetime, lifetime: cfg.Lifetime, rotateAt: cfg.RotateAt,
		},
	}
	for _, name := range cfg.Validating {
		a.targets = append(a.targets, target{admission.WithKind("ValidatingWebhookConfiguration"), name})
	}
	for _, name := range cfg.Mutating {
		a.targets = append(a.targets, target{admission.WithKind("MutatingWebhookConfiguration"), name})
	}
	for _, name := range cfg.CRDs {
		a.targets = append(a.targets, target{extensions.WithKind("CustomResourceDefinition"), name})
	}
	return a, nil
}

// Certificate implements Certificates.
func (a *Authority) Certificate() (*tls.Certificate, error) { return a.current.get() }

// Check implements Certificates. It also fails until all targets that exist have
// been given the bundle once; later failures are in the detail only, since a
// replica that is cut off can still serve.
func (a *Authority) Check() (string, error) {
	detail, err := a.current.check()
	if err == nil && !a.injected.Load() {
		return "", fmt.Errorf("the CA bundle has not been injected yet; %s", detail)
	}
	return detail, err
}

// Run implements Certificates. Failures are logged once each and tried again,
// each second until there is a certificate.
func (a *Authority) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := a.look(ctx); ctx.Err() == nil {
			a.note(err)
		}
		wait := a.cfg.Interval
		if _, err := a.current.get(); err != nil {
			wait = min(wait, time.Second)
		}
		timer.Reset(wait)
	}
}

// note records and logs what a look failed with.
func (a *Authority) note(err error) {
	a.current.note(err)
	switch {
	case err == nil:
		a.problem = ""
	case err.Error() != a.problem:
		a.problem = err.Error()
		a.log.Warn("webhook certificates are not as they should be", "error", err)
	}
}

// maxSteps bounds the steps of one look; others may be faster, and each step can
// make another one due.
const maxSteps = 5

// look takes the steps that are due.
func (a *Authority) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(a.cfg.Interval, 10*time.Second))
	defer cancel()
	for range maxSteps {
		again, err := a.step(ctx)
		if !again {
			return err
		}
	}
	return nil // other replicas are at it, too; the next look goes on
}

// step reads the targets, then the Secret, serves what is in it, injects the
// bundle, and writes what follows to the Secret. The order matters: a target
// that changed after it was read is not written, so that a bundle written is
// never older than the one that it replaces.
func (a *Authority) step(ctx context.Context) (again bool, err error) {
	objects, errTargets := a.readTargets(ctx)
	secret, have, err := a.readSecret(ctx)
	if err != nil {
		return false, errors.Join(err, errTargets)
	}
	if have != nil {
		a.serve(have)
		raced, err := a.injectAll(ctx, objects, have.bundle())
		if raced {
			return true, nil
		}
		if errTargets = errors.Join(errTargets, err); errTargets == nil {
			a.injected.Store(true)
		}
	}
	next, steps, err := a.policy.advance(have, time.Now())
	if err != nil || len(steps) == 0 {
		return false, errors.Join(err, errTargets)
	}
	err = a.writeSecret(ctx, secret, next)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return true, nil // another replica was faster: look what it did
	}
	if err != nil {
		return false, errors.Join(err, errTargets)
	}
	for _, step := range steps {
		a.log.Info("webhook certificates", "step", step)
	}
	return true, nil // serve and inject it
}

// readTargets returns the targets that exist.
func (a *Authority) readTargets(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	var errs []error
	for _, t := range a.targets {
		obj, err := t.read(ctx, a.cfg.Client)
		if err != nil {
			errs = append(errs, err)
		} else if obj != nil {
			objects = append(objects, obj)
		}
	}
	return objects, errors.Join(errs...)
}

// injectAll gives the targets the bundle, and reports whether somebody else
// changed one of them meanwhile.
func (a *Authority) injectAll(ctx context.Context, objects []*unstructured.Unstructured, bundle []byte) (raced bool, err error) {
	var errs []error
	for _, obj := range objects {
		changed, err := inject(ctx, a.cfg.Client, obj, bundle)
		switch {
		case apierrors.IsConflict(err):
			raced = true
		case err != nil:
			errs = append(errs, err)
		case changed:
			a.log.Info("injected the CA bundle", "kind", obj.GetKind(), "name", obj.GetName())
		}
	}
	return raced, errors.Join(errs...)
}

// serve serves the certificate of a keyring.
func (a *Authority) serve(k *keyring) {
	if cert, err := a.current.get(); err == nil && cert.Leaf.Equal(k.serving.cert) {
		return
	}
	a.current.set(k.tls())
	a.log.Info("webhook certificate in place", "expires", k.serving.cert.NotAfter)
}

// readSecret returns the Secret, nil when it does not exist, and what is in it.
func (a *Authority) readSecret(ctx context.Context) (*corev1.Secret, *keyring, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := a.cfg.Client.Get(ctx, types.NamespacedName{Namespace: a.cfg.Namespace, Name: a.cfg.Name}, obj, client.Live)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("secret %s/%s: %w", a.cfg.Namespace, a.cfg.Name, err)
	}
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, secret); err != nil {
		return nil, nil, fmt.Errorf("secret %s/%s: %w", a.cfg.Namespace, a.cfg.Name, err)
	}
	version := string(secret.UID) + " " + secret.ResourceVersion
	if a.read == nil || a.version != version {
		k, err := decodeKeyring(secret.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("secret %s/%s cannot be used, delete it or name another: %w", a.cfg.Namespace, a.cfg.Name, err)
		}
		a.read, a.version = k, version
	}
	return secret, a.read, nil
}

// writeSecret creates the Secret, or updates it unless somebody else has.
func (a *Authority) writeSecret(ctx context.Context, secret *corev1.Secret, k *keyring) error {
	data, err := k.encode()
	if err != nil {
		return err
	}
	write := func(obj *unstructured.Unstructured) error { return a.cfg.Client.Update(ctx, obj) }
	if secret == nil {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.cfg.Namespace, Name: a.cfg.Name}, Type: corev1.SecretTypeTLS}
		write = func(obj *unstructured.Unstructured) error { return a.cfg.Client.Create(ctx, obj) }
	}
	secret.Data = data
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
	if err != nil {
		return fmt.Errorf("encode Secret %s/%s: %w", a.cfg.Namespace, a.cfg.Name, err)
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := write(obj); err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", a.cfg.Namespace, a.cfg.Name, err)
	}
	return nil
}
