package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewIsRefused(t *testing.T) {
	for _, test := range []struct {
		why    string
		change func(*Project, *Resource)
		files  []string // that are there before
		says   []string
	}{
		{"names", func(p *Project, r *Resource) {
			p.Name, p.Domain, p.Repo = "My_Shop", "com", "a b"
			r.Group, r.Version, r.Kind = "A_B", "1", "bad-kind"
		}, nil, []string{"--project-name", "--domain", "--repo", "--group", "--version", "--kind"}},
		{"a name that is too long", func(p *Project, _ *Resource) { p.Name = strings.Repeat("a", 50) }, nil, []string{"--project-name"}},
		{"a kind that is a name of the package", func(_ *Project, r *Resource) { r.Kind = "GroupVersion" }, nil, []string{"--kind", "GroupVersion"}},
		{"a plural", func(_ *Project, r *Resource) { r.Plural = "Shops" }, nil, []string{"--plural"}},
		{"Kubernetes' own groups", func(p *Project, _ *Resource) { p.Domain = "shop.k8s.io" }, nil, []string{"--domain", "approval"}},
		{"a folder that is not empty", nil, []string{"notes.txt", "go.mod"}, []string{"not empty: go.mod, notes.txt"}},
		{"a hidden file in the way", nil, []string{".gitignore"}, []string{".gitignore is in the way"}},
	} {
		root := t.TempDir()
		for _, f := range test.files {
			if err := os.WriteFile(filepath.Join(root, f), []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := contents(t, root)
		p, r := shop()
		if test.change != nil {
			test.change(&p, &r)
		}
		_, err := New(root, p, r, released(t))
		check(t, test.why, err, test.says)
		if diff := cmp.Diff(before, contents(t, root)); diff != "" {
			t.Errorf("%s: refused, and yet (-before +after):\n%s", test.why, diff)
		}
	}
}

func TestNewAllowsWhatAnEmptyRepositoryHas(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "LICENSE"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p, r := shop()
	if _, err := New(root, p, r, released(t)); err != nil {
		t.Error(err)
	}
}

func TestAdditionIsRefused(t *testing.T) {
	another := func(change func(*Resource)) step {
		r := Resource{Group: "shop", Version: "v1alpha1", Kind: "Till", Namespaced: true}
		change(&r)
		return kind(r)
	}
	for _, test := range []struct {
		why   string
		spoil func(root string) error
		step  step
		says  []string
	}{
		{"the kind is there", nil, another(func(r *Resource) { r.Kind = "Shop" }), []string{"has a kind Shop already, in api/v1alpha1"}},
		{"in another group", nil, another(func(r *Resource) { r.Kind, r.Group = "Shop", "other" }), []string{"has a kind Shop in the group shop.example.com"}},
		{"in other capitals", nil, another(func(r *Resource) { r.Kind = "SHOP" }), []string{"has a kind Shop"}},
		{"its Go names are taken", nil, another(func(r *Resource) { r.Kind = "ShopSpec" }), []string{"ShopSpec and Shop"}},
		{"its plural is taken", nil, another(func(r *Resource) { r.Plural = "shops" }), []string{"--plural: shops"}},
		{"another version in no namespace", nil, another(func(r *Resource) { r.Kind, r.Version, r.Namespaced = "Shop", "v1", false }), []string{"namespaced=true"}},
		{"files in the way", func(root string) error {
			return os.WriteFile(filepath.Join(root, "api/v1alpha1/till_types.go"), []byte("mine"), 0o644)
		}, another(func(*Resource) {}), []string{"api/v1alpha1/till_types.go is in the way"}},
		{"a marked place is gone", replace("internal/controller/setup.go", "// +setpoint:scaffold:controllers", ""),
			another(func(*Resource) {}), []string{"internal/controller/setup.go", `"+setpoint:scaffold:controllers" is gone`, "addTill(m)"}},
		{"not Go", replace("internal/controller/setup.go", "func Setup", "func func"), another(func(*Resource) {}), []string{"setup.go", "not Go"}},
		{"a Role that is none", replace("config/rbac/role.yaml", "kind: ClusterRole", "kind: Roll"), another(func(*Resource) {}), []string{"role.yaml", "make generate"}},
		{"no webhook", nil, hooks("Shop", "", Webhooks{}), []string{"--defaulting, --validation or --conversion"}},
		{"webhooks of no kind", nil, hooks("Till", "", Webhooks{Validation: true}), []string{`no kind "Till"`, "there are Shop"}},
		{"webhooks of no version", nil, hooks("Shop", "v9", Webhooks{Validation: true}), []string{`no version "v9"`}},
		{"conversion of one version", nil, hooks("Shop", "", Webhooks{Conversion: true}), []string{"setpoint new api --kind Shop --version"}},
		{"the webhook is there", func(root string) error {
			return take(root, hooks("Shop", "", Webhooks{Validation: true}))
		}, hooks("Shop", "", Webhooks{Validation: true}), []string{"has such a webhook already"}},
	} {
		root := newShop(t)
		if test.spoil != nil {
			if err := test.spoil(root); err != nil {
				t.Fatalf("%s: %v", test.why, err)
			}
		}
		before := contents(t, root)
		check(t, test.why, take(root, test.step), test.says)
		if diff := cmp.Diff(before, contents(t, root)); diff != "" {
			t.Errorf("%s: refused, and yet (-before +after):\n%s", test.why, diff)
		}
	}
}

// TestApplyIsUndone: what comes in the way after the plan was made undoes what was written before it.
func TestApplyIsUndone(t *testing.T) {
	till := Resource{Group: "shop", Version: "v1", Kind: "Till", Namespaced: true}
	for _, test := range []struct {
		why      string
		meddling func(root string) error
		says     string
	}{
		{"a new file", func(root string) error {
			return os.WriteFile(filepath.Join(root, "test/till_test.go"), []byte("mine"), 0o644)
		}, "till_test.go"},
		{"a change", replace("config/rbac/role.yaml", "name: shop", "name: mine"), "changed by somebody else"},
	} {
		root := newShop(t)
		p, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.AddKind(till)
		if err != nil {
			t.Fatal(err)
		}
		if err := test.meddling(root); err != nil {
			t.Fatal(err)
		}
		before := contents(t, root)
		check(t, test.why, plan.Apply(), []string{test.says})
		if diff := cmp.Diff(before, contents(t, root)); diff != "" {
			t.Errorf("%s: half-written (-before +after):\n%s", test.why, diff)
		}
	}
}

func TestOpen(t *testing.T) {
	root := newShop(t)
	if p, err := Open(filepath.Join(root, "internal/controller")); err != nil || p.Name != "shop" {
		t.Errorf("from a folder in it: %v", err)
	}
	_, err := Open(t.TempDir())
	check(t, "no project", err, []string{"not in a project", "setpoint new"})
	if err := replace(record, "setpoint.dev/v1", "setpoint.dev/v9")(root); err != nil {
		t.Fatal(err)
	}
	_, err = Open(root)
	check(t, "another layout", err, []string{`"setpoint.dev/v9"`})
	if err := os.WriteFile(filepath.Join(root, record), []byte("layout: setpoint.dev/v1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Open(root)
	check(t, "no kinds", err, []string{"lists no kinds"})
	if err := os.WriteFile(filepath.Join(root, record), []byte("layout:\n- go.kubebuilder.io/v4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Open(root)
	check(t, "kubebuilder's", err, []string{"made by kubebuilder"})
}

// replace changes a file of a project.
func replace(path, old, new string) func(root string) error {
	return func(root string) error {
		name := filepath.Join(root, path)
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(name, []byte(strings.Replace(string(data), old, new, 1)), 0o644)
	}
}

// check checks that an error says all that it should.
func check(t *testing.T, why string, err error, says []string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: not refused", why)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: does not say %q: %v", why, part, err)
		}
	}
}
