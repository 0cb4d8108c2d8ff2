package expose

import (
	"flag"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	text := "domain: example.com\nexposer: Ingress\ntls-acme: true\nservices: [web]\nwatch-namespaces: a\nroute-use-path: false\n"
	want := Config{Domain: "example.com", Exposer: "Ingress", TLSAcme: true, Services: []string{"web"}, WatchNamespaces: "a", RouteUsePath: false}
	if c, err := parseConfig(text); err != nil || !reflect.DeepEqual(want, c) || len(judgeConfig(text)) > 0 {
		t.Errorf("got %+v, problems %v, error %v", c, judgeConfig(text), err)
	}
	typo := "domain: example.com\ndomian: typo\n"
	if c, err := parseConfig(typo); err != nil || c.Domain != "example.com" || reasons(judgeConfig(typo)) != reasonInvalidConfig {
		t.Errorf("an unknown key: got %+v, problems %v, error %v", c, judgeConfig(typo), err)
	}
	for _, text := range []string{"domain: [", "tls-acme: perhaps", "- a list"} {
		if _, err := parseConfig(text); err == nil || reasons(judgeConfig(text)) != reasonInvalidConfig {
			t.Errorf("%q is accepted", text)
		}
	}
	if c, err := parseConfig(""); err != nil || !reflect.DeepEqual(Config{}, c) {
		t.Errorf("empty: got %+v, error %v", c, err)
	}
}

func TestConfigsAreRememberedAsTheyAre(t *testing.T) {
	var s configs
	for _, test := range []struct {
		namespace, text, domain string
		valid                   bool
	}{{"a", "domain: a", "a", true}, {"b", "domain: b", "b", true}, {"a", "domain: a", "a", true}, {"a", "domain: c", "c", true}, {"b", "[", "", false}, {"b", "domain: b", "b", true}} {
		if c, valid := s.parse(test.namespace, test.text); c.Domain != test.domain || valid != test.valid {
			t.Errorf("%+v: got %q, valid %t", test, c.Domain, valid)
		}
	}
}

// Every option is a flag, and every flag has the last word.
func TestFlagsOverride(t *testing.T) {
	var o Options
	fs := flag.NewFlagSet("expose", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.AddFlags(fs)
	names := map[string]bool{"namespace": true, "namespaces": true}
	kind := reflect.TypeFor[Config]()
	for i := range kind.NumField() {
		field := kind.Field(i)
		if field.Type.Kind() == reflect.Interface {
			continue // means nothing
		}
		name := field.Tag.Get("json")[:len(field.Tag.Get("json"))-len(",omitempty")]
		names[name] = true
		value := "true"
		if field.Type.Kind() != reflect.Bool {
			value = "by-flag"
		}
		if err := fs.Set(name, value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	fs.VisitAll(func(f *flag.Flag) {
		if !names[f.Name] {
			t.Errorf("the flag %s sets nothing", f.Name)
		}
	})
	if diff := cmp.Diff(o.Config, Config{Domain: "by-config"}.with(o.Config)); diff != "" {
		t.Errorf("a flag is without effect (-flags +result):\n%s", diff)
	}
	c := Config{Domain: "by-config", Services: []string{"web"}, TLS: true}
	if diff := cmp.Diff(c, c.with(Config{})); diff != "" {
		t.Errorf("flags that are not set have an effect (-before +after):\n%s", diff)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Namespace: "a", Namespaces: []string{"b"}, Config: Config{Exposer: "NodePort", URLTemplate: "{{.Labels.tier}}.{{.Domain}}", Gateway: "a/b"}}
	for _, o := range []Options{good, {Namespace: "a"}} {
		if err := o.check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	bad := Options{Namespace: "A", Config: Config{Exposer: "pigeon", URLTemplate: "{{", PathMode: "sub", PathType: "glob", IngressClass: "no class", TLSSecretName: "no secret", Gateway: "a/b/c/d"}}
	err := bad.check()
	for _, word := range []string{`"A"`, "pigeon", "urltemplate", "sub", "glob", "no class", "no secret", "a/b/c/d"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
}

func TestManifestNamesTheOperator(t *testing.T) {
	text, err := os.ReadFile("manifests/rbac.yaml")
	if err != nil || RBAC() != string(text) {
		t.Errorf("RBAC is not the manifest: %v", err)
	}
}
