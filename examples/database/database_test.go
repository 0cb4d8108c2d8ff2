package database

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod returns an instance's Pod: ready unless its position is "", and at that position.
func pod(name, position string, labels map[string]string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{PositionAnnotation: position}}}
	if position != "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func TestChoose(t *testing.T) {
	going := pod("db-0", "9", nil)
	going.DeletionTimestamp = new(metav1.Now())
	for _, test := range []struct {
		why, present string
		pods         []corev1.Pod
		want         string
	}{
		{"none", "db-0", nil, ""},
		{"none is ready", "db-0", []corev1.Pod{pod("db-0", "", nil)}, ""},
		{"the first one", "", []corev1.Pod{pod("db-1", "?", nil), pod("db-0", "?", nil)}, "db-0"},
		{"the present one stays, though others are further", "db-0", []corev1.Pod{pod("db-1", "9", nil), pod("db-0", "1", nil)}, "db-0"},
		{"it is not ready", "db-0", []corev1.Pod{pod("db-0", "", nil), pod("db-1", "1", nil), pod("db-2", "10", nil), pod("db-3", "9", nil)}, "db-2"},
		{"it is going", "db-0", []corev1.Pod{going, pod("db-1", "1", nil)}, "db-1"},
		{"one does not say how far it is", "db-0", []corev1.Pod{pod("db-1", "?", nil), pod("db-2", "0", nil)}, "db-2"},
	} {
		if got := choose(test.pods, test.present); got != test.want {
			t.Errorf("%s: got %q, want %q", test.why, got, test.want)
		}
	}
}

func TestRoleChanges(t *testing.T) {
	primary := map[string]string{RoleLabel: rolePrimary}
	for _, test := range []struct {
		why  string
		pods []corev1.Pod
		want string
	}{
		{"the first time", []corev1.Pod{pod("db-0", "1", nil), pod("db-1", "1", nil)}, `[db-1="primary"]`},
		{"it is so", []corev1.Pod{pod("db-0", "1", nil), pod("db-1", "1", primary)}, `[]`},
		{"the old one goes first, ready or not", []corev1.Pod{pod("db-0", "", primary), pod("db-1", "1", nil)}, `[db-0=null db-1="primary"]`},
		{"also when it comes last", []corev1.Pod{pod("db-1", "1", nil), pod("db-2", "1", primary)}, `[db-2=null db-1="primary"]`},
	} {
		got := []string{}
		for _, c := range roleChanges(test.pods, "db-1") {
			got = append(got, c.pod.Name+"="+c.role)
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s: got %v, want %s", test.why, got, test.want)
		}
	}
}
