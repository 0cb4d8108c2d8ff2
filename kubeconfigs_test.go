package setpoint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// kubeconfig returns one whose user and cluster have these fields.
func kubeconfig(user, cluster string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
contexts: [{name: c, context: {user: u, cluster: k}}],
users: [{name: u, user: {%s}}],
clusters: [{name: k, cluster: {server: "https://there", %s}}]}`, user, cluster)
}

// kubeconfigSecret returns a Secret that ClustersFromSecrets looks for.
func kubeconfigSecret(name, content string) *corev1.Secret {
	s := secret(name)
	s.Labels = map[string]string{"setpoint.dev/cluster": ""}
	s.Data = map[string][]byte{"kubeconfig": []byte(content)}
	return s
}

// Clusters follow the Secrets that hold their kubeconfigs, also on a standby.
func TestClustersFromSecrets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lines := map[string]*line{"a": newLine("x"), "b": newLine("x")}
		r := withMembers(t, nil, elected("standby"))
		leader := newRig(t, r.server, elected("leader"))
		leader.start()
		settle(time.Minute)
		var tokens []string
		setpoint.ClustersFromSecrets(r.m, setpoint.SecretClusters{
			Namespace: "default",
			Configure: func(name string, cfg *setpoint.ClusterConfig) error {
				tokens = append(tokens, name+" "+cfg.REST.BearerToken)
				if cfg.REST.BearerToken == "refused" {
					return errors.New("not that one")
				}
				*cfg = lines[name].clusterConfig()
				return nil
			},
		})
		apitest.Put(r.server, kubeconfigSecret("a", kubeconfig("token: one", "")))
		unlabelled := kubeconfigSecret("b", kubeconfig("token: two", ""))
		unlabelled.Labels = nil
		apitest.Put(r.server, unlabelled)
		r.start()
		settle(time.Second)
		clusters := func() string {
			var names []string
			for _, c := range r.m.Clusters()[1:] {
				names = append(names, c.Name())
			}
			return strings.Join(names, " ")
		}
		if got := clusters(); got != "a" {
			t.Errorf("clusters %q, want a", got)
		}
		apitest.Put(r.server, kubeconfigSecret("b", kubeconfig("token: two", "")))
		settle(time.Second)
		if got := clusters(); got != "a b" {
			t.Errorf("clusters %q, want a and b", got)
		}
		first := r.m.Cluster("a")
		relabelled := kubeconfigSecret("a", kubeconfig("token: one", ""))
		relabelled.Labels["other"] = "yes"
		apitest.Put(r.server, relabelled)
		settle(time.Second)
		if r.m.Cluster("a") != first {
			t.Error("a cluster was replaced although its kubeconfig is the same")
		}
		apitest.Put(r.server, kubeconfigSecret("a", kubeconfig("token: three", "")))
		settle(time.Second)
		if r.m.Cluster("a") == nil || r.m.Cluster("a") == first {
			t.Error("a cluster was not replaced when its kubeconfig changed")
		}
		r.server.Delete(secret("b"))
		settle(time.Second)
		if got := clusters(); got != "a" {
			t.Errorf("clusters %q, want a", got)
		}
		if got, want := strings.Join(tokens, ", "), "a one, b two, a three"; got != want {
			t.Errorf("configured %s, want %s", got, want)
		}
		apitest.Put(r.server, kubeconfigSecret("b", kubeconfig("token: refused", "")))
		settle(time.Second)
		if !strings.Contains(r.logs.String(), `configure cluster \"b\": not that one`) {
			t.Error("what Configure returns is not logged")
		}
		if _, body := r.get("/readyz?verbose"); !strings.Contains(body, "[+]clusters-from-secrets ok: 1 clusters\n") {
			t.Error(body)
		}
	})
}

// A Secret that would have the process run or read something, or that makes no
// sense, adds no cluster and is named; its content is not.
func TestKubeconfigsThatAreRefused(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"command", kubeconfig(`exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/leak, interactiveMode: Never}`, ""), "it names a command to run"},
		{"plug-in", kubeconfig(`auth-provider: {name: leak}`, ""), "it names a plug-in"},
		{"token file", kubeconfig(`tokenFile: /leak`, ""), "its user names a file"},
		{"certificate file", kubeconfig(`client-certificate: /leak, client-key: /leak`, ""), "its user names a file"},
		{"authority file", kubeconfig(`token: leak`, `certificate-authority: /leak`), "it names a file, certificate-authority"},
		{"no key", "", "it is missing or empty"},
		{"junk", "leak: [", "it is not a kubeconfig"},
		{"no context", `{apiVersion: v1, kind: Config}`, `its current context "" is not in it`},
		{"no cluster", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k}}]}`, `its cluster "k" is not in it`},
		{"no server", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: {}}]}`, "it is incomplete"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := withMembers(t, nil)
				apitest.Put(r.server, kubeconfigSecret("bad", test.content))
				setpoint.ClustersFromSecrets(r.m, setpoint.SecretClusters{Namespace: "default"})
				r.start()
				settle(time.Hour)
				code, body := r.get("/readyz?verbose")
				if code != 200 || !strings.Contains(body, "[+]clusters-from-secrets ok: 0 clusters; Secret bad: "+test.want) {
					t.Errorf("/readyz %d: %s, want %s", code, body, test.want)
				}
				log := r.logs.String()
				if strings.Count(log, "a Secret holds no kubeconfig that can be used") != 1 || strings.Contains(log+body, "leak") {
					t.Errorf("log:\n%s", log)
				}
				if len(r.m.Clusters()) != 1 {
					t.Error("a cluster was added")
				}
			})
		})
	}
}

// Without the Secrets it is not known which clusters there are: the replica is not
// ready.
func TestClustersFromSecretsForbidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, apitest.New(apitest.ConfigMaps))
		setpoint.ClustersFromSecrets(r.m, setpoint.SecretClusters{Namespace: "default"})
		r.start()
		settle(time.Minute)
		if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "[-]clusters-from-secrets failed: waiting for the Secrets: ") {
			t.Errorf("/readyz %d: %s", code, body)
		}
	})
	m := newRig(t, apitest.New(apitest.ConfigMaps)).m
	setpoint.ClustersFromSecrets(m, setpoint.SecretClusters{Selector: "a=="})
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the namespace of the Secrets is missing") || !strings.Contains(err.Error(), "ClustersFromSecrets: ") {
		t.Errorf("Run: %v", err)
	}
}
