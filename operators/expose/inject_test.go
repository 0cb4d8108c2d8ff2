package expose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// newConfigMap returns a ConfigMap with annotations given as names and values in turn.
func newConfigMap(name string, data map[string]string, annotations ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{}}, Data: data}
	for i := 0; i < len(annotations); i += 2 {
		cm.Annotations[annotations[i]] = annotations[i+1]
	}
	return cm
}

// findIn returns what finds one of the Services by name.
func findIn(services ...*corev1.Service) func(string) *corev1.Service {
	return func(name string) *corev1.Service {
		for _, s := range services {
			if s.Name == name {
				return s
			}
		}
		return nil
	}
}

// injectInto returns what the ConfigMap gets of the Services, and what is wrong.
func injectInto(cm *corev1.ConfigMap, c Config, services ...*corev1.Service) (map[string]string, problems) {
	wishes, wrong := wishesOf(cm, findIn(services...), c)
	in := inject(cm, wishes, nil)
	return in.values, append(wrong, in.problems...)
}

func TestInjection(t *testing.T) {
	web := exposed("web", urlOwn, "https://web.example.com/shop")
	web.Spec.Ports[0].TargetPort = intstr.FromInt32(8080)
	full := Config{HTTP: true, APIServer: "api.example.com:6443", ConsoleURL: "https://console.example.com"}
	for _, test := range []struct {
		why      string
		cm       *corev1.ConfigMap
		config   Config
		want     map[string]string
		problems string
	}{
		{why: "nothing", cm: newConfigMap("web", nil), want: map[string]string{}},
		{
			why: "of the Service's name", want: map[string]string{
				"URL": "https://web.example.com/shop", "HOST": "web.example.com", "PATH": "/shop", "IP": "10.0.0.7", "IP_PORT": "10.0.0.7:8080", "EMPTY": "10.0.0.7:8080",
			},
			cm: newConfigMap("web", map[string]string{"EMPTY": "", "FULL": "mine"},
				"expose.config.fabric8.io/url-key", "URL", "expose.config.fabric8.io/host-key", "HOST\n", "expose.config.fabric8.io/path-key", "PATH",
				"expose.config.fabric8.io/clusterip-key", "IP", "expose.config.fabric8.io/clusterip-port-key", "IP_PORT",
				"expose.config.fabric8.io/clusterip-port-if-empty-key", "EMPTY"),
		},
		{
			why: "not empty", want: map[string]string{},
			cm: newConfigMap("web", map[string]string{"FULL": "mine"}, "expose.config.fabric8.io/clusterip-port-if-empty-key", "FULL"),
		},
		{
			why: "of the cluster", config: full, want: map[string]string{
				"API": "api.example.com:6443", "API_URL": "https://api.example.com:6443", "API_PROTOCOL": "https",
				"CONSOLE": "https://console.example.com", "OAUTH": "https://api.example.com:6443/oauth/authorize", "PROTOCOL": "http", "PROTOCOL_TOO": "http",
			},
			cm: newConfigMap("web", nil,
				"expose.config.fabric8.io/apiserver-key", "API", "expose.config.fabric8.io/apiserver-url-key", "API_URL", "expose.config.fabric8.io/apiserver-protocol-key", "API_PROTOCOL",
				"expose.config.fabric8.io/console-url-key", "CONSOLE", "expose.config.fabric8.io/oauth-authorize-url-key", "OAUTH",
				"expose.config.fabric8.io/url-protocol", "PROTOCOL, PROTOCOL_TOO"),
		},
		{
			why: "of a Service that is not exposed", want: map[string]string{},
			cm: newConfigMap("other", nil, "expose.config.fabric8.io/url-key", "URL", "expose.service-key.config.fabric8.io/gone", "URL2"),
		},
		{
			why: "own annotation", want: map[string]string{"URL": "https://web.example.com/shop", "HOST": "web.example.com", "PROTOCOL": "https"},
			cm: newConfigMap("app", nil, injectOwn, "URL: web\n\n HOST: web host\nPROTOCOL: web protocol\n"),
		},
		{
			why: "own annotation makes no sense", want: map[string]string{"URL": "https://web.example.com/shop"}, problems: "InvalidInjection InvalidInjection InvalidInjection",
			cm: newConfigMap("app", nil, injectOwn, "URL: web\nno colon\nX: web colour\nY: a b c"),
		},
		{
			why: "two for one key", want: map[string]string{"K": "https://web.example.com/shop/"}, problems: reasonInjection,
			cm: newConfigMap("app", nil, "expose-full.service-key.config.fabric8.io/web", "K", "expose.service-key.config.fabric8.io/web", "K"),
		},
		{
			why: "no key", want: map[string]string{}, problems: reasonInjection,
			cm: newConfigMap("app", nil, "expose.service-key.config.fabric8.io/web", "a b"),
		},
	} {
		got, wrong := injectInto(test.cm, test.config, web)
		if diff := cmp.Diff(test.want, got); diff != "" || reasons(wrong) != test.problems {
			t.Errorf("%s: problems %v, (-want +got):\n%s", test.why, wrong, diff)
		}
	}
}

func TestInjectionOfBinaryKey(t *testing.T) {
	cm := newConfigMap("app", nil, injectOwn, "K: web")
	cm.BinaryData = map[string][]byte{"K": {1}}
	if got, wrong := injectInto(cm, Config{}, exposed("web", urlOwn, "http://web")); len(got) > 0 || reasons(wrong) != reasonInjection {
		t.Errorf("got %v, problems %v: the server would not accept the whole", got, wrong)
	}
}

func TestInjectionRemembersAndRestores(t *testing.T) {
	cm := newConfigMap("app", map[string]string{"OLD": "before", "OTHER": "mine"}, injectOwn, "OLD: web\nNEW: web")
	wishes, _ := wishesOf(cm, findIn(exposed("web", urlOwn, "http://web")), Config{})
	in := inject(cm, wishes, nil)
	want, err := desiredConfigMap(cm, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{injected: `{"NEW":null,"OLD":"before"}`}, want.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"NEW": "http://web", "OLD": "http://web"}, want.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	cm.Annotations[injected], cm.Data["OLD"], cm.Data["NEW"] = want.Annotations[injected], "http://web", "http://web"
	if again := inject(cm, wishes, nil); !cmp.Equal(in.record, again.record) {
		t.Errorf("what was before is forgotten: %+v", again.record)
	}
	own := []metav1.ManagedFieldsEntry{{Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:NEW":{},"f:OLD":{}}}`)}}
	if diff := cmp.Diff(map[string]string{"OLD": "before"}, inject(cm, nil, own).restore); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := inject(cm, nil, nil).restore; len(got) > 0 {
		t.Errorf("somebody has set the value since, and it is replaced by %v", got)
	}
}

func TestServicesOfConfigMap(t *testing.T) {
	cm := newConfigMap("app", nil, injectOwn, "A: web\nB: api host\nnonsense", "expose-full.service-key.config.fabric8.io/db", "C", "expose.config.fabric8.io/url-key", "D")
	if diff := cmp.Diff([]string{"api", "db", "web"}, servicesOf(cm)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !isAsking(cm) || isAsking(newConfigMap("app", nil, "some/annotation", "x")) {
		t.Error("who asks for values is not told from who does not")
	}
}

func TestRewriting(t *testing.T) {
	web := exposed("web", urlOwn, "https://web.example.com", legacyRewrite, `
- {key: app.ini, prefix: "DOMAIN = ", expression: host}
- {key: app.ini, prefix: "ROOT_URL = ", expression: url, suffix: "/"}
- {key: gone, prefix: "x", expression: url}
- {key: app.ini, prefix: "x", expression: colour}
- {key: app.ini, expression: url}
`)
	cm := newConfigMap("web", map[string]string{"app.ini": "[server]\r\nDOMAIN = localhost\r\nROOT_URL = http://localhost"})
	got, wrong := rewritesOf(cm, web, Config{})
	want := map[string]string{"app.ini": "[server]\r\nDOMAIN = web.example.com\r\nROOT_URL = https://web.example.com/"}
	if diff := cmp.Diff(want, got); diff != "" || reasons(wrong) != reasonInjection+" "+reasonInjection {
		t.Errorf("problems %v, (-want +got):\n%s", wrong, diff)
	}
	cm.Data = want
	if again, _ := rewritesOf(cm, web, Config{}); len(again) > 0 {
		t.Errorf("it is rewritten once more: %v", again)
	}
	onConfigMap := newConfigMap("web", map[string]string{"f": "url="}, legacyRewrite, `[{key: f, prefix: "url=", expression: url}]`)
	if got, _ := rewritesOf(onConfigMap, exposed("web", urlOwn, "http://web"), Config{}); got["f"] != "url=http://web" {
		t.Errorf("the ConfigMap's own annotation does nothing: %v", got)
	}
	if _, wrong := rewritesOf(cm, exposed("web", legacyRewrite, "{"), Config{}); reasons(wrong) != reasonInjection {
		t.Errorf("no YAML is answered by %v", wrong)
	}
}
