package expose

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
)

// way is how far what leads to a Service has come.
type way int

const (
	// open: it is there.
	open way = iota
	// coming: it is not there yet; what the Service says stays as it is until then.
	coming
	// blocked: somebody else is in the way.
	blocked
)

// reconcileService brings what is a Service's alone to what it asks for: its HTTPRoute, its type and its URL.
func (r *reconciler) reconcileService(ctx context.Context, service *corev1.Service) (setpoint.Result, error) {
	if service.DeletionTimestamp != nil {
		return setpoint.Result{}, nil // what it owns is the garbage collector's now
	}
	p, err := r.plan(ctx, service)
	if err != nil {
		return setpoint.Result{}, err
	}
	r.report(service, p.problems)
	if p.held {
		return setpoint.Result{}, nil
	}
	w, err := r.route(ctx, service, p)
	if errors.Is(err, errTaken) || apierrors.IsConflict(err) {
		return setpoint.Result{Requeue: true}, nil
	}
	if err == nil && p.exposer == exposerIngress {
		w, err = r.wayByIngress(ctx, service, p)
	}
	if err != nil || w == coming {
		return setpoint.Result{}, outcomeOf(err)
	}
	if w == blocked {
		p.url = ""
	}
	return setpoint.Result{}, outcomeOf(r.tell(ctx, service, p))
}

// plan returns what the Service asks for. One that asks for nothing needs no configuration, and one whose configuration makes
// no sense keeps what it has.
func (r *reconciler) plan(ctx context.Context, service *corev1.Service) (plan, error) {
	if !asks(service) {
		return planOf(service, Config{}, facts{}), nil
	}
	c, valid, err := r.config(ctx, service.Namespace)
	if err != nil || !valid {
		return plan{held: true}, err
	}
	f, err := r.facts(ctx, c, *service)
	return planOf(service, c, f), err
}

// wayByIngress looks whether the Service's Ingress leads to it.
func (r *reconciler) wayByIngress(ctx context.Context, service *corev1.Service, p plan) (way, error) {
	var ingress networkingv1.Ingress
	key := types.NamespacedName{Namespace: service.Namespace, Name: p.ingressName}
	err := r.client.Get(ctx, key, &ingress)
	switch {
	case apierrors.IsNotFound(err):
		return coming, nil
	case err != nil:
		return coming, fmt.Errorf("looking for the Service's Ingress: %w", err)
	case !isMine(&ingress, r.own(ingressKind, key)):
		return blocked, nil
	}
	return wayThrough(&ingress, service.Name, p), nil
}

// tell writes to the Service what it needs and what it is to know, or takes that back, and says so.
func (r *reconciler) tell(ctx context.Context, service *corev1.Service, p plan) error {
	before := service.Annotations[urlOwn]
	err := writeService(ctx, r.client, "", service, p, r.own(serviceKind, client.KeyOf(service)))
	switch {
	case isRejected(err):
		r.report(service, problems{{reasonRejected, fmt.Sprintf("The server does not accept what exposing the Service needs: %v", err)}})
	case err != nil, p.url == before:
	case p.url != "":
		r.events.Eventf(service, event.Normal, "Exposed", "Expose", "The Service is reached at %s", p.url)
	default:
		r.events.Eventf(service, event.Normal, "Withdrawn", "Expose", "The Service is no longer reached at %s", before)
	}
	return err
}

// writeService writes what a plan wants of a Service itself, of whose managedFields own are the operator's. What an apply
// does not do, to give a type back and to remove a URL that somebody else wrote as well, is written first, so that the rest is
// still there to be tried again. A Service that is gone needs nothing.
func writeService(ctx context.Context, c *client.Client, as client.FieldOwner, service *corev1.Service, p plan, own []metav1.ManagedFieldsEntry) error {
	want, any := desiredService(service, p)
	if !any && !applies(own) {
		return nil
	}
	former, urls := formerType(service, p, own), formerURLs(service, p, own)
	if former != "" || len(urls) > 0 {
		before := service.DeepCopy()
		service.Spec.Type = cmp.Or(former, service.Spec.Type)
		for _, name := range urls {
			delete(service.Annotations, name)
		}
		if err := c.Patch(ctx, service, client.MergeFrom(before), as); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(c.Apply(ctx, want, client.ForceOwnership, as))
}

// desiredService returns the Service with the fields that the operator owns and no others, and whether there are any.
func desiredService(service *corev1.Service, p plan) (*corev1.Service, bool) {
	want := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name, UID: service.UID, Annotations: map[string]string{}},
	}
	if p.url != "" {
		want.Annotations[urlOwn], want.Annotations[urlLegacy] = p.url, p.url
		if p.hostAnnotation != "" {
			want.Annotations[p.hostAnnotation] = p.urlHost
		}
	}
	if want.Spec.Type = typeFor(p); want.Spec.Type != "" {
		former := service.Annotations[previousType]
		if former == "" && service.Spec.Type != want.Spec.Type {
			former = string(cmp.Or(service.Spec.Type, corev1.ServiceTypeClusterIP))
		}
		if former != "" {
			want.Annotations[previousType] = former
		}
	}
	return want, len(want.Annotations) > 0 || want.Spec.Type != ""
}

// typeFor returns the type that a plan needs the Service to have, or "" when any will do.
func typeFor(p plan) corev1.ServiceType {
	switch p.exposer {
	case exposerNodePort:
		return corev1.ServiceTypeNodePort
	case exposerLoadBalancer:
		return corev1.ServiceTypeLoadBalancer
	}
	return ""
}

// formerType returns the type to give back to the Service, or "". ClusterIP needs no giving back, since a Service whose type
// nobody asks for has it. A type that somebody has set after the operator is not touched.
func formerType(service *corev1.Service, p plan, own []metav1.ManagedFieldsEntry) corev1.ServiceType {
	former := corev1.ServiceType(service.Annotations[previousType])
	if typeFor(p) != "" || former == service.Spec.Type || !appliesField(own, "spec", "type") {
		return ""
	}
	switch former {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return former
	}
	return ""
}

// formerURLs returns the annotations with URLs that hold no longer. Exposecontroller and copied manifests own them, too, so that
// they would outlive the operator's.
func formerURLs(service *corev1.Service, p plan, own []metav1.ManagedFieldsEntry) (names []string) {
	for _, name := range []string{urlOwn, urlLegacy} {
		if _, is := service.Annotations[name]; is && p.url == "" && appliesField(own, "metadata", "annotations", name) {
			names = append(names, name)
		}
	}
	return names
}
