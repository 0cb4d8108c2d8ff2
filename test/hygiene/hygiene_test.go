package hygiene

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// root is the repository, seen from this package's folder.
const root = "../.."

// module is the path of module 1, and the prefix of every other module's.
const module = "github.com/setpoint-dev/setpoint"

// file is one Go source file of the repository.
type file struct {
	pkg     string // the folder, relative to the repository: "." for the root package
	name    string // the path, relative to the repository
	test    bool
	syntax  *ast.File
	imports []string
}

// ours reports the folder of an import of this repository, and whether it is one.
func ours(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// files parses every Go file that the go command would ever build.
func files(t *testing.T) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(p, root), string(filepath.Separator)))
		if d.IsDir() {
			if rel != "" && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		if neverBuilt(syntax) {
			return nil
		}
		f := file{pkg: path.Dir(rel), name: rel, test: strings.HasSuffix(p, "_test.go"), syntax: syntax}
		for _, spec := range syntax.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imp)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d Go files under %s: the walk is broken", len(out), root)
	}
	return out
}

// neverBuilt reports whether a file's build constraint can only be met by the tag "never".
func neverBuilt(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if c.Pos() > f.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			if x, err := constraint.Parse(c.Text); err == nil && !x.Eval(func(tag string) bool { return tag != "never" }) {
				return true
			}
		}
	}
	return false
}

// within reports whether folder p is one of dirs or below one.
func within(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") })
}

// otherModules are the folders of the modules that are not module 1.
func otherModules() []string {
	return []string{"bench", "cmd", "compat", "operators", "plane", "test", "tools", "examples"}
}

func TestImports(t *testing.T) {
	// Each rule names the packages it binds and says whether one of their imports breaks it.
	rules := []struct {
		why     string
		applies func(pkg string) bool
		broken  func(imp string) bool
	}{
		{
			why:     "module 1 must not need a Kubernetes server or the peer it replaces",
			applies: func(pkg string) bool { return !within(pkg, otherModules()...) },
			broken: func(imp string) bool {
				dir, mine := ours(imp)
				return within(imp, "k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "sigs.k8s.io/controller-runtime") ||
					mine && within(dir, otherModules()...)
			},
		},
		{
			why:     "the lowest packages import nothing of ours",
			applies: func(pkg string) bool { return within(pkg, "internal/mvcc", "queue", "filter") },
			broken:  func(imp string) bool { _, mine := ours(imp); return mine },
		},
		{
			why:     "shipped operators import only what a user's operator can",
			applies: func(pkg string) bool { return within(pkg, "operators") },
			broken: func(imp string) bool {
				dir, mine := ours(imp)
				return mine && (strings.Contains(dir, "internal") || within(dir, "plane", "cmd", "bench", "test")) ||
					within(imp, "k8s.io/kubernetes", "k8s.io/apiserver", "sigs.k8s.io/controller-runtime")
			},
		},
		{
			why:     "the plane does not need the runtime's packages, only the table they share",
			applies: func(pkg string) bool { return within(pkg, "plane") },
			broken: func(imp string) bool {
				dir, mine := ours(imp)
				return mine && !within(dir, "plane", "internal/mvcc")
			},
		},
		{
			why:     "nothing imports the commands, the benchmarks or the tests but themselves",
			applies: func(pkg string) bool { return !within(pkg, "cmd", "bench", "test") },
			broken: func(imp string) bool {
				dir, mine := ours(imp)
				return mine && within(dir, "cmd", "bench", "test")
			},
		},
		{
			why:     "only the benchmarks and the compatibility layer know controller-runtime",
			applies: func(pkg string) bool { return !within(pkg, "bench", "compat") },
			broken:  func(imp string) bool { return within(imp, "sigs.k8s.io/controller-runtime") },
		},
	}
	for _, f := range files(t) {
		for _, rule := range rules {
			for _, imp := range f.imports {
				// A test in an external test package of a low package may still use only what the package may.
				if rule.applies(f.pkg) && rule.broken(imp) {
					if dir, mine := ours(imp); mine && f.test && dir == f.pkg {
						continue // the external test package imports what it tests
					}
					t.Errorf("%s imports %s: %s", f.name, imp, rule.why)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range files(t) {
		if f.test {
			continue
		}
		if f.syntax.Doc != nil && len(strings.Fields(f.syntax.Doc.Text())) >= 8 {
			documented[f.pkg] = true
		} else if !documented[f.pkg] {
			documented[f.pkg] = false
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment that says what it is for", pkg)
		}
	}
}

func TestDependenciesOfModuleOne(t *testing.T) {
	// What a program that imports the runtime compiles, and why it may.
	allowed := map[string]string{
		"github.com/go-logr/logr":             "the logging interface of the ecosystem",
		"github.com/prometheus/client_golang": "metrics",
		"github.com/klauspost/compress":       "compressed caches: zstd with a dictionary, several times faster than the standard library's flate",
		"go.opentelemetry.io/otel":            "traces: attributes and the traceparent header; an interface, the program brings what exports",
		"go.opentelemetry.io/otel/trace":      "traces: the interface of tracers",
		"k8s.io/api":                          "the built-in kinds",
		"k8s.io/apimachinery":                 "object metadata, schemes, patches",
		"k8s.io/client-go":                    "kubeconfig, credentials, transport",
		"sigs.k8s.io/json":                    "strict decoding that names unknown fields by their paths, as the API server does",
		"sigs.k8s.io/yaml":                    "documents that users write",
		"github.com/google/go-cmp":            "tests only",
		"go.uber.org/goleak":                  "tests only",
	}
	testsOnly := []string{"github.com/google/go-cmp", "go.uber.org/goleak"}
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if _, ok := allowed[r.Mod.Path]; !ok && !r.Indirect {
			t.Errorf("go.mod requires %s, which is not among the dependencies argued for in this test", r.Mod.Path)
		}
	}
	for _, f := range files(t) {
		if f.test || within(f.pkg, otherModules()...) || within(f.pkg, "internal/apitest") {
			continue
		}
		for _, imp := range f.imports {
			if within(imp, testsOnly...) {
				t.Errorf("%s imports %s, which is for tests only", f.name, imp)
			}
		}
	}
}
