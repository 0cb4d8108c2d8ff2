package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml": "# only a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: second}\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: third}\n",
		"a.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"first"}}`,
		"c.yml":  "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: fourth}}\n",
		"d.txt":  "not a manifest",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	if diff := cmp.Diff([]string{"first", "second", "third", "fourth"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestReadNamesEveryBadFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"broken.yaml":  "a: [",
		"kindless.yml": "metadata: {name: x}",
		"nameless.yml": "apiVersion: v1\nkind: ConfigMap",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Read(dir, filepath.Join(dir, "missing.yaml"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"broken.yaml", "kindless.yml", "nameless.yml", "missing.yaml"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}
