package catalog

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint"
)

// objects decodes YAML documents.
func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &obj.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if obj.Object != nil {
			all = append(all, obj)
		}
	}
	return all
}

// What is printed for another namespace leads nowhere else, and the Deployment runs as the ServiceAccount that has the
// rights.
func TestManifests(t *testing.T) {
	for _, o := range All() {
		t.Run(o.Name, func(t *testing.T) {
			text, err := o.Manifests(Installation{Image: "example.com/setpoint:v1", Namespace: "ops", Metrics: true, Debug: true})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, Namespace) {
				t.Errorf("it names %s, though it is for ops", Namespace)
			}
			found := map[string]*unstructured.Unstructured{}
			for _, obj := range objects(t, text) {
				id := obj.GetKind() + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
				if found[id] != nil {
					t.Errorf("%s is there twice", id)
				}
				found[id] = obj
				if obj.Object["status"] != nil {
					t.Errorf("%s has a status", id)
				}
			}
			own := "ops/" + o.ObjectName()
			for _, id := range []string{
				"Namespace ops", "ServiceAccount " + own, "ClusterRole " + o.ObjectName(), "ClusterRoleBinding " + o.ObjectName(),
				"Role " + own, "RoleBinding " + own, "Deployment " + own, "Service " + own + "-metrics",
				"ClusterRoleBinding " + o.ObjectName() + "-auth-delegator",
			} {
				if found[id] == nil {
					t.Errorf("there is no %s", id)
				}
			}
			if account, _, _ := unstructured.NestedString(found["Deployment "+own].Object, "spec", "template", "spec", "serviceAccountName"); account != o.ObjectName() {
				t.Errorf("the Deployment runs as %q", account)
			}
			if (o.crd != "") != slices.ContainsFunc(objects(t, text), func(obj *unstructured.Unstructured) bool { return obj.GetKind() == "CustomResourceDefinition" }) {
				t.Error("the kinds that the operator brings, or none, are not what is installed")
			}
		})
	}
}

func TestManifestsRefuses(t *testing.T) {
	o := All()[0]
	for want, i := range map[string]Installation{
		"no image":                 {},
		`"Not a name" is no name`:  {Image: "x", Namespace: "Not a name"},
		"replicas -1":              {Image: "x", Replicas: -1},
		"debug endpoint is served": {Image: "x", Debug: true},
	} {
		if _, err := o.Manifests(i); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), o.Name) {
			t.Errorf("%+v: %v, want %q", i, err, want)
		}
	}
}

// Flags carry the operator's name, remember what they were given, and do not leak into the next All.
func TestFlags(t *testing.T) {
	parse := func(args ...string) (*flag.FlagSet, error) {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		for _, o := range All() {
			o.AddFlags(fs)
		}
		return fs, fs.Parse(args)
	}
	given := []string{"-expose-domain=example.com", "-expose-tls", "-reload-namespaces=a,b", "-reload-window=3s"}
	fs, err := parse(given...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"expose-domain": "example.com", "expose-tls": "true", "reload-namespaces": "a,b", "reload-window": "3s",
	} {
		if got := fs.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if fs, err = parse(); err != nil || fs.Lookup("expose-domain").Value.String() != "" {
		t.Errorf("the next flags begin with %q, %v", fs.Lookup("expose-domain").Value, err)
	}
	if _, err := parse("-reload-window=soon"); err == nil {
		t.Error("a window of \"soon\" was taken")
	}
}

// awaits is a log that ends something when it is told a text.
type awaits struct {
	text string
	end  func()
}

func (a awaits) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(a.text)) {
		a.end()
	}
	return len(line), nil
}

// What goes wrong with webhooks is told where the operator's log goes.
func TestWebhooksLog(t *testing.T) {
	all := All()
	memcached := all[slices.IndexFunc(all, Operator.HasWebhooks)]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	told := false
	log := awaits{"webhook certificates are not as they should be", func() { told = true; cancel() }}
	m, err := memcached.Manager(setpoint.Config{
		REST: &rest.Config{Host: "http://127.0.0.1:1"}, Logger: slog.New(slog.NewTextHandler(log, nil)), GracePeriod: -1,
	}, Place{WebhookListener: listener})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !told {
		t.Error("nobody is told that the certificate cannot be kept")
	}
}
