package scaffold

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden file anew")

// released is a Setpoint that needs no sources, with the versions of the command.
func released(t *testing.T) Setpoint {
	t.Helper()
	mod, errMod := os.ReadFile("../go.mod")
	sum, errSum := os.ReadFile("../go.sum")
	if err := errors.Join(errMod, errSum); err != nil {
		t.Fatal(err)
	}
	return Setpoint{Version: "v1.2.3", GoMod: mod, GoSum: sum}
}

func shop() (Project, Resource) {
	return Project{Name: "shop", Domain: "example.com", Repo: "example.com/shop"},
		Resource{Group: "shop", Version: "v1alpha1", Kind: "Shop", Namespaced: true}
}

// newShop makes a project.
func newShop(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	p, r := shop()
	plan, err := New(root, p, r, released(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Apply(); err != nil {
		t.Fatal(err)
	}
	return root
}

// step is one addition to a project.
type step func(*Project) (*Plan, error)

func kind(r Resource) step { return func(p *Project) (*Plan, error) { return p.AddKind(r) } }

func hooks(kind, version string, add Webhooks) step {
	return func(p *Project) (*Plan, error) { return p.AddWebhooks(kind, nil, version, add) }
}

// take opens the project and carries out what a step plans.
func take(root string, s step) error {
	p, err := Open(filepath.Join(root))
	if err != nil {
		return err
	}
	plan, err := s(p)
	if err != nil {
		return err
	}
	return plan.Apply()
}

// everything are the additions that a project is tried with.
var everything = []step{
	kind(Resource{Group: "shop", Version: "v1alpha1", Kind: "Till"}),
	kind(Resource{Group: "shop", Version: "v1", Kind: "Shop", Namespaced: true}),
	kind(Resource{Group: "billing", Version: "v1beta1", Kind: "Invoice", Namespaced: true}),
	hooks("Till", "", Webhooks{Validation: true}),
	hooks("Shop", "", Webhooks{Defaulting: true, Validation: true, Conversion: true}),
}

// contents returns the files below a folder, by path.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || entry.IsDir() {
			files[filepath.ToSlash(name)+"/"] = "" // folders count, too
			return err
		}
		data, err := os.ReadFile(path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGolden shows the names of all files, and the content of those that are put together of several templates.
func TestGolden(t *testing.T) {
	root := newShop(t)
	for _, s := range everything {
		if err := take(root, s); err != nil {
			t.Fatal(err)
		}
	}
	files := contents(t, root)
	var got bytes.Buffer
	for _, path := range slices.Sorted(keys(files)) {
		if !strings.HasSuffix(path, "/") {
			fmt.Fprintln(&got, path)
		}
	}
	for _, path := range []string{
		"PROJECT", "api/v1alpha1/groupversion_info.go", "cmd/main.go", "config/kustomization.yaml", "config/manager/deployment.yaml",
		"config/rbac/role.yaml", "config/webhook/manifests.yaml", "config/webhook/rbac.yaml",
		"internal/controller/setup.go", "internal/webhook/setup.go",
	} {
		fmt.Fprintf(&got, "\n-- %s --\n%s", path, files[path])
	}
	const golden = "testdata/shop.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("not what %s holds; look at the difference, then run the test with -update (-want +got):\n%s", golden, diff)
	}
}

func keys(files map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for path := range files {
			if !yield(path) {
				return
			}
		}
	}
}

// TestFormat: every file is in the form that its tools give it, and nothing of the templates is left in it.
func TestFormat(t *testing.T) {
	root := newShop(t)
	for _, s := range everything {
		if err := take(root, s); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range contents(t, root) {
		if strings.Contains(text, "{{.") || strings.Contains(text, "<no value>") {
			t.Errorf("%s has something of a template in it", path)
		}
		switch filepath.Ext(path) {
		case ".go":
			if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
				t.Errorf("%s is not as gofmt has it: %v\n%s", path, err, cmp.Diff(text, string(formatted)))
			}
		case ".yaml":
			for _, document := range strings.Split(text, "\n---\n") {
				if err := yaml.UnmarshalStrict([]byte(document), &map[string]any{}); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		case ".mod":
			if _, err := modfile.Parse(path, []byte(text), nil); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDryRun: a plan that is not applied leaves no trace, and tells the same files as one that is.
func TestDryRun(t *testing.T) {
	root := filepath.Join(t.TempDir(), "new")
	p, r := shop()
	plan, err := New(root, p, r, released(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plan made something: %v", err)
	}
	made := plan.Made()
	if err := plan.Apply(); err != nil {
		t.Fatal(err)
	}
	var files []string
	for path := range contents(t, root) {
		if !strings.HasSuffix(path, "/") {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	if diff := cmp.Diff(files, made); diff != "" {
		t.Errorf("not the files that were told (-there +told):\n%s", diff)
	}
}

// TestGoMod: what go.mod requires is the release, or the sources, and the versions are those of the command.
func TestGoMod(t *testing.T) {
	sources := t.TempDir()
	if err := os.WriteFile(filepath.Join(sources, "go.mod"), []byte("module "+modulePath+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	root := newShop(t)
	for _, test := range []struct {
		why  string
		from Setpoint
		has  []string
		not  string
	}{
		{"a release", released(t), []string{"setpoint v1.2.3", "setpoint/plane v1.2.3", "k8s.io/client-go v"}, "replace"},
		{"a folder", Setpoint{Dir: sources}, []string{"setpoint => " + sources, "setpoint/plane => " + sources + "/plane"}, "v1.2.3"},
	} {
		test.from.GoMod, test.from.GoSum = released(t).GoMod, released(t).GoSum
		deps, err := test.from.modules(&Project{Repo: "example.com/shop", root: root})
		if err != nil {
			t.Errorf("%s: %v", test.why, err)
			continue
		}
		file, err := modfile.Parse("go.mod", deps.mod, nil)
		if err != nil {
			t.Errorf("%s: %v", test.why, err)
			continue
		}
		var direct []string
		for _, r := range file.Require {
			if !r.Indirect {
				direct = append(direct, r.Mod.Path)
			}
		}
		if diff := cmp.Diff(needed, direct); diff != "" {
			t.Errorf("%s: direct requirements (-want +got):\n%s", test.why, diff)
		}
		for _, part := range test.has {
			if !strings.Contains(string(deps.mod), part) {
				t.Errorf("%s: no %q in\n%s", test.why, part, deps.mod)
			}
		}
		if strings.Contains(string(deps.mod), test.not) {
			t.Errorf("%s: has %q:\n%s", test.why, test.not, deps.mod)
		}
	}
	if _, err := (Setpoint{Dir: t.TempDir(), GoMod: released(t).GoMod}).modules(&Project{Repo: "example.com/shop"}); err == nil ||
		!strings.Contains(err.Error(), "--setpoint-dir") {
		t.Errorf("a folder without Setpoint: %v", err)
	}
}

// TestGeneratorIsPinned: the CustomResourceDefinitions say that they were made by the generator that is pinned.
func TestGeneratorIsPinned(t *testing.T) {
	file, err := modfile.ParseLax("go.mod", render("tools/go.mod.tmpl", &Project{Repo: "example.com/shop"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	crd, err := templates.ReadFile("templates/kind/crd.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Require {
		if r.Mod.Path == "sigs.k8s.io/controller-tools" && strings.Contains(string(crd), "controller-gen.kubebuilder.io/version: "+r.Mod.Version+"\n") {
			return
		}
	}
	t.Error("the templates are of another version")
}
