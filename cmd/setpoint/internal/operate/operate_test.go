package operate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
)

// execute runs a command line.
func execute(t *testing.T, line string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/missing")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var out bytes.Buffer
	root := &cobra.Command{Use: "test", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(&out, io.Discard)...)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(strings.Fields(line))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMisuse(t *testing.T) {
	for line, want := range map[string]string{
		"run":                                   "name the operators",
		"run nothing":                           `there is no operator "nothing"; there are expose, foo`,
		"run foo foo":                           "foo is named twice",
		"run foo --expose-domain a.b":           "--expose-domain is an option of the operator expose, which is not run",
		"run foo --log-format xml":              `"xml" is neither text nor json`,
		"run foo --shards 100000":               "--shards: 100000",
		"run foo --debug":                       "--debug needs --metrics-address",
		"run foo --metrics-address here":        `"here" is no host:port`,
		"run foo --webhook-address :9443":       "none of these operators has webhooks",
		"manifests":                             "name one operator",
		"manifests foo":                         "no image",
		"manifests foo expose --image x":        "name one operator",
		"manifests foo --image x --expose-tls":  "--expose-tls is an option of the operator expose",
		"manifests foo --image x --namespace X": "no name of a namespace",
		"manifests foo --image x --replicas 0":  "--replicas: 0 is less than 1",
		"run foo --health-address :65536":       "the port is no number up to 65535",
		"cleanup foo":                           "the operator foo needs no cleanup",
		"cleanup nothing":                       `there is no operator "nothing"; there are expose, foo`,
		"cleanup":                               "name one operator",
	} {
		_, err := execute(t, line)
		if misuse := (Misuse{}); !errors.As(err, &misuse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	for _, line := range []string{"run foo", "cleanup expose"} {
		_, err := execute(t, line)
		if misuse := (Misuse{}); err == nil || errors.As(err, &misuse) || !strings.Contains(err.Error(), "no cluster found") {
			t.Errorf("%s without a cluster: %v", line, err)
		}
	}
}

// What manifests writes into the Deployment is understood by run.
func TestManifestsPassOptionsOn(t *testing.T) {
	out, err := execute(t, "manifests expose --image x --expose-domain example.com --expose-tls --metrics --debug")
	if err != nil {
		t.Fatal(err)
	}
	_, args, _ := strings.Cut(out, "- args:\n")
	args, _, _ = strings.Cut(args, "        env:")
	line := strings.Join(strings.Fields(strings.ReplaceAll(args, "- ", " ")), " ")
	if want := "run expose --health-address=0.0.0.0:8081 --log-format=json --debug --metrics-address=0.0.0.0:8443 --expose-domain=example.com --expose-tls=true"; line != want {
		t.Errorf("the arguments are\n%s, want\n%s", line, want)
	}
	if _, err := execute(t, line); err == nil || !strings.Contains(err.Error(), "no cluster found") {
		t.Errorf("run says %v of them", err)
	}
}

// Several managers are well when each of them is, and a check of one can be asked for.
func TestHealthOfSeveral(t *testing.T) {
	var managers []*setpoint.Manager
	for range 2 {
		m, err := setpoint.NewManager(setpoint.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		managers = append(managers, m)
	}
	setpoint.For[*corev1.ConfigMap](managers[1], "waits").
		Reconcile(func(context.Context, *corev1.ConfigMap) (setpoint.Result, error) { return setpoint.Result{}, nil })
	health := healthOf(managers)
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		health.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/healthz/waits": 200, "/healthz/nothing": 404, "/readyz": 503, "/readyz/waits": 503, "/metrics": 404,
	} {
		if code, body := ask(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
