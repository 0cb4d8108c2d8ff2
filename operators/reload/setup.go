package reload

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/filter"
)

// Name is the operator's name: of its lease and field manager, and the beginning of the names of its controllers, one for
// each kind of workloads.
const Name = "reload"

const (
	// sourcesIndex finds workloads by the sources that they follow.
	sourcesIndex = "reload.sources"
	// unfinishedIndex finds workloads that the operator rolled and whose rollout is under way.
	unfinishedIndex = "reload.unfinished"
	// workers is how many workloads of a kind are reconciled at once.
	workers = 4
)

//go:embed manifests/rbac.yaml
var rbac string

// RBAC returns, as YAML, the ServiceAccount setpoint-reload in the namespace setpoint-system and the least that it needs
// to be allowed: what the operator does in every namespace, and its lease and key in its own.
func RBAC() string { return rbac }

// AddToScheme teaches a manager's scheme the kinds that the operator needs beside the built-in ones: there are none.
func AddToScheme(*runtime.Scheme) error { return nil }

// Setup adds the operator to a manager, which must have been made with the Kinds of the same options.
func Setup(m *setpoint.Manager, o Options) error {
	if err := o.check(); err != nil {
		return fmt.Errorf("setting up the operator %s: %w", Name, err)
	}
	op, err := newOperator(m, o)
	if err != nil {
		return fmt.Errorf("setting up the operator %s: %w", Name, err)
	}
	for _, k := range o.kinds() {
		r := &reconciler{operator: op, kind: k, notes: newNotebook()}
		if err := r.declareIndexes(m); err != nil {
			return fmt.Errorf("setting up the operator %s: %w", Name, err)
		}
		switch k.gvk.Kind {
		case "Deployment":
			declare[*appsv1.Deployment](m, r)
		case "StatefulSet":
			declare[*appsv1.StatefulSet](m, r)
		case "DaemonSet":
			declare[*appsv1.DaemonSet](m, r)
		case "CronJob":
			declare[*batchv1.CronJob](m, r)
		case "Job":
			declare[*batchv1.Job](m, r)
		default:
			declare[*unstructured.Unstructured](m, r)
		}
	}
	return op.budget.watch(m.Cache(), o.kinds())
}

// controllerName returns the name of the controller of a kind of workloads, such as "reload-deployment".
func (k *workloadKind) controllerName() string { return Name + "-" + strings.ToLower(k.gvk.Kind) }

// declare declares the controller of a kind of workloads. Each kind has its own, so that one that is not served keeps no
// other waiting.
func declare[T client.Object](m *setpoint.Manager, r *reconciler) {
	b := setpoint.For[T](m, r.kind.controllerName()).Kind(r.kind.gvk).
		When(r.concerned).
		Source("Budget", r.budget.wakes(r.kind)).
		Workers(workers)
	for _, kind := range r.options.sources() {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(sourceKind(kind))
		b.Watches(obj, r.users, contentChanged)
	}
	if r.kind.gvk == rolloutKind {
		b.Optional() // most clusters have no Argo
	}
	b.ReconcileRequest(r)
}

func (r *reconciler) declareIndexes(m *setpoint.Manager) error {
	return errors.Join(
		m.Cache().Index(r.kind.gvk, sourcesIndex, func(obj runtime.Object) []string { return r.followed(obj.(client.Object)) }),
		m.Cache().Index(r.kind.gvk, unfinishedIndex, func(obj runtime.Object) []string { return r.unfinished(obj.(client.Object)) }),
	)
}

// contentChanged passes the changes of a source that may matter. The first listing does not: every workload that follows
// something is reconciled at the start anyhow.
func contentChanged(c filter.Change) bool {
	if c.Initial {
		return false
	}
	if c.Old == nil || c.New == nil {
		return true
	}
	before, now := c.Old.Meta().Annotations, c.New.Meta().Annotations
	for _, key := range []string{digestAnnotation, Match, Ignore, reloaderMatch, reloaderIgnore} {
		if before[key] != now[key] {
			return true
		}
	}
	return false
}

// concerned passes the changes of workloads that follow something, or did until now.
func (r *reconciler) concerned(c filter.Change) bool {
	for _, state := range []*filter.State{c.New, c.Old} {
		if state == nil {
			continue
		}
		meta := state.Meta()
		if r.options.AutoAll || selects(meta.Annotations) || meta.Annotations[State] != "" {
			return true
		}
		obj, err := state.Object()
		if err != nil {
			return true
		}
		if pods := r.kind.template(obj.(client.Object)); pods != nil && selects(pods.Annotations) {
			return true
		}
	}
	return false
}

// anyName stands, in sourcesIndex, for all sources of a kind: for workloads that follow regular expressions.
const anyName = "*"

// followed is the value of sourcesIndex.
func (r *reconciler) followed(obj client.Object) []string {
	pods := r.kind.template(obj)
	if pods == nil {
		return nil
	}
	p := r.policy(obj, pods)
	var values []string
	refs := references(&pods.Spec)
	for s, ref := range refs {
		if p.follows(s, ref, true) {
			values = append(values, s.String())
		}
	}
	for _, kind := range r.options.sources() {
		of := p.of(kind)
		for _, name := range of.named.names {
			if s := (source{kind, name}); refs[s] == nil && p.follows(s, nil, false) {
				values = append(values, s.String())
			}
		}
		if len(of.named.expressions) > 0 {
			values = append(values, source{kind, anyName}.String())
		}
	}
	return values
}

// unfinished is the value of unfinishedIndex.
func (r *reconciler) unfinished(obj client.Object) []string {
	text := obj.GetAnnotations()[State]
	if text == "" || !r.kind.rolls(obj) {
		return nil
	}
	if m, err := parseMemory(text); err != nil || m.Rolled == nil {
		return nil
	}
	return []string{"true"}
}

// users names the workloads that follow a source. They are found by the index: by the source's name, and among those that
// follow regular expressions in its namespace.
func (r *reconciler) users(ctx context.Context, changed client.Object) []setpoint.Request {
	s := source{changed.GetObjectKind().GroupVersionKind().Kind, changed.GetName()}
	var requests []setpoint.Request
	for _, value := range []string{s.String(), source{s.kind, anyName}.String()} {
		found := listOf(r.kind.gvk)
		err := r.client.List(ctx, found, client.InNamespace(changed.GetNamespace()), client.MatchingFields{sourcesIndex: value}, client.AllowStale)
		if err != nil {
			setpoint.Logger(ctx).Error("Finding the workloads that follow a source", "source", s.String(),
				"namespace", changed.GetNamespace(), "error", err)
			continue
		}
		for i := range found.Items {
			w := &found.Items[i]
			// Of workloads that are annotated on their templates the metadata does not tell.
			if value == s.String() || !selects(w.Annotations) || r.policyOf(w.Annotations, nil).follows(s, nil, false) {
				requests = append(requests, setpoint.RequestFor(w))
			}
		}
	}
	return requests
}

// listOf returns an empty list of the metadata of a kind's objects.
func listOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}
