package replicaset

import (
	"errors"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failure is why Pods could not be created or deleted.
type failure struct {
	reason string
	err    error
}

// withFailure returns the conditions with that of the failure, or without it. One for the same reason keeps its time.
func withFailure(conditions []appsv1.ReplicaSetCondition, f *failure, now time.Time) []appsv1.ReplicaSetCondition {
	i := slices.IndexFunc(conditions, func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure })
	switch {
	case f == nil && i < 0:
		return conditions
	case f == nil:
		return slices.Delete(conditions, i, i+1)
	case i >= 0 && conditions[i].Status == corev1.ConditionTrue && conditions[i].Reason == f.reason:
		conditions[i].Message = f.err.Error()
		return conditions
	case i >= 0:
		conditions = slices.Delete(conditions, i, i+1)
	}
	return append(conditions, appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		Reason: f.reason, Message: f.err.Error(), LastTransitionTime: metav1.NewTime(now),
	})
}

// namelessError is an error about an object to which the server gave a name that no other one will have.
type namelessError struct {
	error
	text string
}

func (e namelessError) Error() string { return e.text }

func (e namelessError) Unwrap() error { return e.error }

// nameless takes out of what an error says the name that the server made up from a prefix: the next attempt has another one,
// and the same failure is to be told in the same words.
func nameless(err error, prefix string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	name := status.Status().Details.Name
	if name == prefix || !strings.HasPrefix(name, prefix) {
		return err
	}
	return namelessError{err, strings.ReplaceAll(err.Error(), name, prefix)}
}
