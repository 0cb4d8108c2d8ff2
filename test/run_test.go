package test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/operators/reload"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/planetest"
)

// listeningCluster is newCluster's, or a plane with a listener, and its kubeconfig's path: for programs of their own.
func listeningCluster(t *testing.T) (planetest.Cluster, string) {
	t.Helper()
	if kubeconfig := os.Getenv("SETPOINT_TEST_KUBECONFIG"); kubeconfig != "" {
		return newCluster(t), kubeconfig
	}
	p := planetest.Start(t, plane.Config{Listen: "127.0.0.1:0"})
	data, err := p.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return p, path
}

// operators builds the program that the image holds, and returns its path.
func operators(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "setpoint-operators")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "../cmd/setpoint/setpoint-operators")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The program that the image holds, with the manifests that it prints, works on a cluster as its users run it: both
// operators do their work, and an interrupt ends it with 0 and gives the leases back.
func TestRunExposeAndReload(t *testing.T) {
	c, kubeconfig := listeningCluster(t)
	program := operators(t)
	for _, name := range []string{"expose", "reload"} {
		manifests, err := exec.CommandContext(t.Context(), program, "manifests", name, "--image", "example.com/operators:v1").Output()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(file, manifests, 0o600); err != nil {
			t.Fatal(err)
		}
		planetest.Apply(t, c, file)
	}
	stop := start(t, program, "run", "expose", "reload", "--kubeconfig", kubeconfig, "--expose-domain", "example.test", "--reload-window", "10ms")

	user, err := client.New(client.Config{REST: c.RESTConfig(), FieldOwner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"n": "1"}}
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "run-web", Annotations: map[string]string{"configmap.reloader.stakater.com/reload": "settings"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "run-web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "run-web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "run-web", Annotations: map[string]string{"fabric8.io/expose": "true"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "run-web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
	}
	for _, obj := range []client.Object{settings, web, service} {
		if err := user.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := user.Delete(context.Background(), obj); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}

	planetest.Wait(t, c, service, func(s *corev1.Service) bool {
		return s.Annotations["fabric8.io/exposeUrl"] == "http://run-web.default.example.test"
	})
	planetest.Wait(t, c, &networkingv1.Ingress{ObjectMeta: service.ObjectMeta}, func(i *networkingv1.Ingress) bool {
		return len(i.Spec.Rules) == 1 && i.Spec.Rules[0].Host == "run-web.default.example.test"
	})
	// The baseline is remembered beside the workload, and rolls nothing.
	planetest.Wait(t, c, web, func(d *appsv1.Deployment) bool {
		return d.Annotations[reload.State] != "" && d.Spec.Template.Annotations[reload.Stamp] == ""
	})
	settings.Data["n"] = "2"
	if err := user.Update(ctx, settings); err != nil {
		t.Fatal(err)
	}
	planetest.Wait(t, c, web, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[reload.Stamp] != "" && d.Status.ObservedGeneration == d.Generation &&
			d.Status.UpdatedReplicas == 1 && d.Status.AvailableReplicas == 1
	})
	stop()
}

// start starts a program and returns what interrupts it, and fails the test unless it then ends with 0. A test that fails
// shows what the program wrote.
func start(t *testing.T, program string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(&lines, stderr)
	}()
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s %s ended with %v", filepath.Base(program), strings.Join(args, " "), err)
		}
	}
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Logf("%s", &lines)
		}
	})
	return end
}
