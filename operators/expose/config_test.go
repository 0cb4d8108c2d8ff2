package expose

import (
	"flag"
	"io"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	c, wrong, err := parseConfig("domain: example.com\nexposer: Ingress\ntls-acme: true\nservices: [web]\nwatch-namespaces: a\nroute-use-path: false\n")
	if want := (Config{Domain: "example.com", Exposer: "Ingress", TLSAcme: true, Services: []string{"web"}, WatchNamespaces: "a", RouteUsePath: false}); err != nil || len(wrong) > 0 || !reflect.DeepEqual(want, c) {
		t.Errorf("got %+v, problems %v, error %v", c, wrong, err)
	}
	if c, wrong, err := parseConfig("domain: example.com\ndomian: typo\n"); err != nil || c.Domain != "example.com" || reasons(wrong) != reasonInvalidConfig {
		t.Errorf("an unknown key: got %+v, problems %v, error %v", c, wrong, err)
	}
	for _, text := range []string{"domain: [", "tls-acme: perhaps", "- a list"} {
		if _, _, err := parseConfig(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if c, _, err := parseConfig(""); err != nil || !reflect.DeepEqual(Config{}, c) {
		t.Errorf("empty: got %+v, error %v", c, err)
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

func TestManifestNamesTheOperator(t *testing.T) {
	text, err := os.ReadFile("manifests/rbac.yaml")
	if err != nil || RBAC() != string(text) {
		t.Errorf("RBAC is not the manifest: %v", err)
	}
}
