package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object decodes one object from YAML.
func object(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	found, err := decodeManifests("test", []byte(document))
	if err != nil || len(found) != 1 {
		t.Fatalf("decoding %s: %d objects, %v", document, len(found), err)
	}
	return found[0].object
}

func TestJudge(t *testing.T) {
	const head = "apiVersion: %s\nkind: %s\nmetadata: {name: a, generation: 2}\n"
	for _, test := range []struct {
		why, kind, rest string
		reported        bool
		ready           bool
		says            string
	}{
		{why: "a plain object exists", kind: "v1 ConfigMap", ready: true, says: "exists"},
		{why: "new Deployment", kind: "apps/v1 Deployment", rest: "spec: {replicas: 3}", says: "0 of 3"},
		{why: "rolled out", kind: "apps/v1 Deployment", ready: true, says: "3 of 3",
			rest: "spec: {replicas: 3}\nstatus: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, availableReplicas: 3}"},
		{why: "status of before the change", kind: "apps/v1 Deployment", says: "not seen",
			rest: "spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, availableReplicas: 3}"},
		{why: "old Pods are left", kind: "apps/v1 Deployment",
			rest: "spec: {replicas: 3}\nstatus: {observedGeneration: 2, replicas: 4, updatedReplicas: 3, availableReplicas: 3}"},
		{why: "scaled to none", kind: "apps/v1 Deployment", ready: true, rest: "spec: {replicas: 0}\nstatus: {observedGeneration: 2}"},
		{why: "stateful set on its way", kind: "apps/v1 StatefulSet", says: "1 of 2",
			rest: "spec: {replicas: 2}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}"},
		{why: "daemon set without nodes", kind: "apps/v1 DaemonSet", ready: true, rest: "status: {observedGeneration: 2, desiredNumberScheduled: 0}"},
		{why: "daemon set not looked at", kind: "apps/v1 DaemonSet"},
		{why: "running job", kind: "batch/v1 Job", rest: "spec: {completions: 2}\nstatus: {succeeded: 1}", says: "1 of 2"},
		{why: "complete job", kind: "batch/v1 Job", ready: true, rest: "status: {conditions: [{type: Complete, status: 'True'}]}"},
		{why: "failed job", kind: "batch/v1 Job", says: "BackoffLimitExceeded",
			rest: "status: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: too often}]}"},
		{why: "pending pod", kind: "v1 Pod", rest: "status: {phase: Pending}", says: "pending"},
		{why: "crashing pod", kind: "v1 Pod", says: "CrashLoopBackOff",
			rest: "status: {phase: Running, containerStatuses: [{state: {waiting: {reason: CrashLoopBackOff}}}]}"},
		{why: "ready pod", kind: "v1 Pod", ready: true, rest: "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}"},
		{why: "finished pod", kind: "v1 Pod", ready: true, rest: "status: {phase: Succeeded, conditions: [{type: Ready, status: 'False'}]}"},
		{why: "namespace", kind: "v1 Namespace", ready: true, rest: "status: {phase: Active}"},
		{why: "unbound claim", kind: "v1 PersistentVolumeClaim", rest: "status: {phase: Pending}", says: "pending"},
		{why: "definition not established", kind: "apiextensions.k8s.io/v1 CustomResourceDefinition", says: "not established"},
		{why: "custom, nobody has looked yet", kind: "sample.setpoint.dev/v1alpha1 Foo", reported: true, says: "operator"},
		{why: "custom, has no status at all", kind: "sample.setpoint.dev/v1alpha1 Foo", ready: true},
		{why: "custom, not ready", kind: "sample.setpoint.dev/v1alpha1 Foo", reported: true, says: "RollingOut: on its way",
			rest: "status: {conditions: [{type: Ready, status: 'False', reason: RollingOut, message: on its way}]}"},
		{why: "custom, ready before the change", kind: "sample.setpoint.dev/v1alpha1 Foo", reported: true, says: "not seen",
			rest: "status: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}"},
		{why: "custom, ready", kind: "sample.setpoint.dev/v1alpha1 Foo", reported: true, ready: true,
			rest: "status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}"},
		{why: "custom, reports something else", kind: "sample.setpoint.dev/v1alpha1 Foo", reported: true, ready: true, rest: "status: {phase: Fine}"},
	} {
		version, kind, _ := strings.Cut(test.kind, " ")
		document := strings.Replace(strings.Replace(head, "%s", version, 1), "%s", kind, 1) + test.rest
		got := judge(object(t, document), test.reported)
		if got.ready != test.ready || !strings.Contains(got.text, test.says) {
			t.Errorf("%s: got %+v, want ready=%t saying %q", test.why, got, test.ready, test.says)
		}
	}
}

func TestJudgeBeingDeleted(t *testing.T) {
	o := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}")
	if got := judge(o, false); got.ready {
		t.Errorf("got %+v, want it not ready", got)
	}
}
