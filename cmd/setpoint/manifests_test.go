package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadManifests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("20.yaml", "# first\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n---\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: c}\n")
	write("10.json", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}`)
	write("30.yml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: d}\n")
	write("README.md", "not: [a manifest")
	write("deeper/40.yaml", "not: [read")

	all, err := readManifests(t.Context(), []string{dir, "-"}, strings.NewReader("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\n"))
	if err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		for _, m := range all {
			out = append(out, m.object.GetName())
		}
		return out
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "ns", "d", "z"}, names()); diff != "" {
		t.Errorf("as given (-want +got):\n%s", diff)
	}
	applyOrder(all)
	if diff := cmp.Diff([]string{"d", "ns", "a", "b", "c", "z"}, names()); diff != "" {
		t.Errorf("in the order of application (-want +got):\n%s", diff)
	}
}

func TestReadManifestsNamesEveryMistake(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.yaml")
	content := "a: [\n---\nname: no object\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: twice}\n"
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := readManifests(t.Context(), []string{file, empty, filepath.Join(dir, "missing.yaml")}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"document 1", "document 2: no Kubernetes object", "document 3: ConfigMap has no metadata.name", "document 4", "already set", "holds no .yaml", "missing.yaml"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func TestNumbersStayWhole(t *testing.T) {
	o := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 3}\n")
	if n, ok := number(o, "spec", "replicas"); !ok || n != 3 {
		t.Errorf("spec.replicas is %T, want an int64", o.Object["spec"].(map[string]any)["replicas"])
	}
}
