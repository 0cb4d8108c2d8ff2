package replicaset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/owner"
)

// Burst is how many Pods of a ReplicaSet are created or deleted in one reconcile at most.
const Burst = 500

// The reasons of Events and of the condition ReplicaFailure, which are those of Kubernetes' controller.
const (
	reasonCreated      = "SuccessfulCreate"
	reasonCreateFailed = "FailedCreate"
	reasonDeleted      = "SuccessfulDelete"
	reasonDeleteFailed = "FailedDelete"
)

// reconciler carries out what the pure functions decide.
type reconciler struct {
	client *client.Client
	events *event.Recorder
}

// reconcile brings the number of a ReplicaSet's Pods, and then its status, to what they should be.
func (r *reconciler) reconcile(ctx context.Context, set *appsv1.ReplicaSet) (setpoint.Result, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return setpoint.Result{}, setpoint.Terminal(fmt.Errorf("the selector is not valid: %w", err))
	}
	owned, err := r.pods(ctx, set, string(set.UID), labels.Everything())
	if err != nil {
		return setpoint.Result{}, fmt.Errorf("looking for the Pods: %w", err)
	}
	orphans, err := r.pods(ctx, set, nobody, selector)
	if err != nil {
		return setpoint.Result{}, fmt.Errorf("looking for Pods to adopt: %w", err)
	}
	c := claimOf(set, selector, owned, orphans)
	if err := r.settle(ctx, set, &c); err != nil {
		return setpoint.Result{}, err
	}
	var failed *failure
	if set.DeletionTimestamp == nil {
		failed, err = r.scale(ctx, set, &c)
	}
	status, wait := statusOf(set, c, failed, time.Now())
	return setpoint.Result{RequeueAfter: wait}, errors.Join(err, r.report(ctx, set, status))
}

// pods returns the Pods of the ReplicaSet's namespace that are controlled by whom controller names, and match.
func (r *reconciler) pods(ctx context.Context, set *appsv1.ReplicaSet, controller string, selector labels.Selector) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := r.client.List(ctx, &list, client.InNamespace(set.Namespace),
		client.MatchingFields{controllerIndex: controller}, client.MatchingLabelsSelector{Selector: selector})
	return list.Items, err
}

// settle adopts and releases Pods. What cannot be adopted ends the reconcile: perhaps it is the ReplicaSet that is gone.
func (r *reconciler) settle(ctx context.Context, set *appsv1.ReplicaSet, c *claim) error {
	var errs []error
	for _, pod := range c.release {
		if err := owner.Release(ctx, r.client, set, pod); err != nil {
			errs = append(errs, fmt.Errorf("release Pod %s: %w", pod.Name, err))
		}
	}
	for _, pod := range c.adopt {
		if err := owner.Adopt(ctx, r.client, set, pod); err != nil {
			errs = append(errs, fmt.Errorf("adopt Pod %s: %w", pod.Name, err))
			continue
		}
		c.active = append(c.active, pod)
	}
	return errors.Join(errs...)
}

// scale creates or deletes Pods, and keeps the claim up to date.
func (r *reconciler) scale(ctx context.Context, set *appsv1.ReplicaSet, c *claim) (*failure, error) {
	switch missing := replicas(set) - len(c.active); {
	case missing > 0:
		var mu sync.Mutex
		err := batches(min(missing, Burst), func(int) error {
			pod, err := r.create(ctx, set)
			if err != nil || pod == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			c.active = append(c.active, pod)
			return nil
		})
		if err != nil {
			return &failure{reasonCreateFailed, err}, err
		}
	case missing < 0:
		crowd, err := r.crowd(ctx, set, c)
		if err != nil {
			return nil, err
		}
		doomed := surplus(c.active, min(-missing, Burst), crowd, time.Now())
		gone := make([]bool, len(doomed))
		err = batches(len(doomed), func(i int) error {
			err := r.delete(ctx, set, doomed[i])
			gone[i] = err == nil
			return err
		})
		for i, pod := range doomed {
			if gone[i] {
				c.remove(pod)
			}
		}
		if err != nil {
			return &failure{reasonDeleteFailed, err}, err
		}
	}
	return nil, nil
}

// create creates a Pod by the template. It returns nil when the ReplicaSet goes with its namespace.
func (r *reconciler) create(ctx context.Context, set *appsv1.ReplicaSet) (*corev1.Pod, error) {
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, GenerateName: set.Name + "-",
			Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers,
		},
		Spec: template.Spec,
	}
	if err := owner.SetController(set, pod, r.client.Scheme()); err != nil {
		return nil, err
	}
	err := r.client.Create(ctx, pod)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil
	case err != nil:
		err = nameless(err, pod.GenerateName)
		r.events.Eventf(set, corev1.EventTypeWarning, reasonCreateFailed, "Create", "Error creating: %v", err)
		return nil, err
	}
	r.events.Eventf(set, corev1.EventTypeNormal, reasonCreated, "Create", "Created pod: %s", pod.Name)
	return pod, nil
}

// delete deletes a Pod, unless it is gone already.
func (r *reconciler) delete(ctx context.Context, set *appsv1.ReplicaSet, pod *corev1.Pod) error {
	switch err := r.client.Delete(ctx, pod); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		r.events.Eventf(set, corev1.EventTypeWarning, reasonDeleteFailed, "Delete", "Error deleting: %v", err)
		return fmt.Errorf("delete Pod %s: %w", pod.Name, err)
	}
	r.events.Eventf(set, corev1.EventTypeNormal, reasonDeleted, "Delete", "Deleted pod: %s", pod.Name)
	return nil
}

// crowd counts, by node, the Pods of all ReplicaSets of the workload that controls the set, such as a Deployment.
func (r *reconciler) crowd(ctx context.Context, set *appsv1.ReplicaSet, c *claim) (map[string]int, error) {
	crowd := map[string]int{}
	count := func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" {
			crowd[pod.Spec.NodeName]++
		}
	}
	for _, pod := range c.active {
		count(pod)
	}
	workload := owner.ControllerOf(set)
	if workload == nil {
		return crowd, nil
	}
	var siblings appsv1.ReplicaSetList
	if err := r.client.List(ctx, &siblings, client.InNamespace(set.Namespace), client.MatchingFields{controllerIndex: string(workload.UID)}); err != nil {
		return nil, fmt.Errorf("looking for the ReplicaSets of %s %s: %w", workload.Kind, workload.Name, err)
	}
	for i := range siblings.Items {
		if siblings.Items[i].UID == set.UID {
			continue
		}
		pods, err := r.pods(ctx, &siblings.Items[i], string(siblings.Items[i].UID), labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("looking for the Pods of ReplicaSet %s: %w", siblings.Items[i].Name, err)
		}
		for i := range pods {
			if !finished(&pods[i]) && pods[i].DeletionTimestamp == nil {
				count(&pods[i])
			}
		}
	}
	return crowd, nil
}

// report writes the status if it differs from the one there.
func (r *reconciler) report(ctx context.Context, set *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	before := set.DeepCopy()
	set.Status = status
	return client.IgnoreNotFound(r.client.Status().Patch(ctx, set, client.MergeFrom(before)))
}
