package database

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// RoleLabel is on the Pod that is the primary, with the value "primary", and on no other.
	RoleLabel = "example.setpoint.dev/role"
	// PositionAnnotation is where an instance reports how far it has come, as a number.
	PositionAnnotation = "example.setpoint.dev/position"

	rolePrimary = "primary"
	nameLabel   = "example.setpoint.dev/database"
	port        = 5432
)

func labelsOf(db *Database) map[string]string { return map[string]string{nameLabel: db.Name} }

func metaOf(db *Database, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name + suffix, Labels: labelsOf(db)}
}

func statefulSetFor(db *Database) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metaOf(db, ""),
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &db.Spec.Instances,
			ServiceName: db.Name,
			Selector:    &metav1.LabelSelector{MatchLabels: labelsOf(db)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(db)},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "database", Image: db.Spec.Image,
						Env: []corev1.EnvVar{{Name: "POSTGRES_PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
							LocalObjectReference: corev1.LocalObjectReference{Name: db.Name + "-password"}, Key: "password",
						}}}},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/postgresql"}, {Name: "settings", MountPath: "/etc/settings"}},
					}},
					Volumes: []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: db.Name + "-settings"},
					}}}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: labelsOf(db)},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
}

// choose returns the name of the Pod that should be the primary: the present one as long as it is ready, else of those
// that are ready the one that has come furthest, and of several the first by name. It is empty when none is ready.
func choose(pods []corev1.Pod, present string) string {
	var able []corev1.Pod
	for _, pod := range pods {
		if !ready(pod) {
			continue
		}
		if pod.Name == present {
			return present
		}
		able = append(able, pod)
	}
	if len(able) == 0 {
		return ""
	}
	return slices.MinFunc(able, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(position(b), position(a)), cmp.Compare(a.Name, b.Name))
	}).Name
}

// ready reports whether a Pod is ready and stays.
func ready(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// position is how far a Pod's instance has come; one that does not say so has not come anywhere.
func position(pod corev1.Pod) int64 {
	n, err := strconv.ParseInt(pod.Annotations[PositionAnnotation], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// roleChange is a Pod whose label has to change, and its new value as JSON.
type roleChange struct {
	pod  corev1.Pod
	role string
}

// roleChanges returns what has to change for the chosen Pod to be the only primary, in the order in which there are never
// two.
func roleChanges(pods []corev1.Pod, chosen string) []roleChange {
	var changes []roleChange
	for _, pod := range pods {
		if pod.Name != chosen && pod.Labels[RoleLabel] != "" {
			changes = append(changes, roleChange{pod, "null"})
		}
	}
	for _, pod := range pods {
		if pod.Name == chosen && pod.Labels[RoleLabel] != rolePrimary {
			changes = append(changes, roleChange{pod, strconv.Quote(rolePrimary)})
		}
	}
	return changes
}
