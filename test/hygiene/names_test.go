package hygiene

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// checkedPages are the pages whose every name in backquotes, and every command and snippet, must exist.
var checkedPages = []string{"docs/production.md", "docs/where-to-keep-state.md"}

// page returns the text of a page outside of fences, and what is within them, by language.
func page(t *testing.T, name string) (text string, fences map[string][]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	fences = map[string][]string{}
	fence := regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	for _, match := range fence.FindAllStringSubmatch(string(data), -1) {
		fences[match[1]] = append(fences[match[1]], match[2])
	}
	return fence.ReplaceAllString(string(data), ""), fences
}

// symbols are the exported names of module 1: with and without their package, members with their types.
func symbols(t *testing.T) (names, packages map[string]bool) {
	t.Helper()
	names, packages = map[string]bool{}, map[string]bool{}
	for _, f := range files(t) {
		if f.test || within(f.pkg, otherModules()...) || strings.Contains(f.pkg, "internal") {
			continue
		}
		pkg := f.syntax.Name.Name
		packages[pkg] = true
		add := func(path ...string) {
			name := strings.Join(path, ".")
			if ast.IsExported(path[len(path)-1]) {
				names[path[len(path)-1]], names[name], names[pkg+"."+name] = true, true, true
			}
		}
		for _, decl := range f.syntax.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if receiver := receiverOf(decl); receiver != "" {
					add(receiver, decl.Name.Name)
				} else {
					add(decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					declared(spec, add)
				}
			}
		}
	}
	return names, packages
}

// receiverOf returns the name of a method's type, and "" for a function.
func receiverOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// declared adds what a declaration declares: a type with its fields, a constant or a variable.
func declared(spec ast.Spec, add func(...string)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			add(id.Name)
		}
	case *ast.TypeSpec:
		add(spec.Name.Name)
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, id := range field.Names {
					add(spec.Name.Name, id.Name)
				}
			}
		}
	}
}

// allTests returns the names of all tests of the repository, alone and after the folder that they are in.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range files(t) {
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names[fn.Name.Name], names[f.pkg+" "+fn.Name.Name] = true, true
			}
		}
	}
	return names
}

// literals returns all strings in the code of module 1.
func literals(t *testing.T) map[string]bool {
	t.Helper()
	texts := map[string]bool{}
	for _, f := range files(t) {
		if f.test || within(f.pkg, otherModules()...) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					texts[text] = true
				}
			}
			return true
		})
	}
	return texts
}

var (
	metric = regexp.MustCompile(`^(setpoint|controller_runtime|workqueue|rest_client|leader_election)_[a-z_]+$`)
	symbol = regexp.MustCompile(`\b(?:[a-z][A-Za-z0-9]*\.)?[A-Z][A-Za-z0-9]*(?:\.[A-Z][A-Za-z0-9]*)*`)
	goName = regexp.MustCompile(`^[A-Za-z0-9.]*[A-Z][A-Za-z0-9.]*(\(.*\))?$`)
	urlism = regexp.MustCompile(`^/(healthz|readyz|metrics|debug)[a-z/]*$`)
)

// What these pages name exists: metrics, log lines, tests, Go names, files and paths.
func TestPagesNameWhatExists(t *testing.T) {
	names, packages := symbols(t)
	tests, texts := allTests(t), literals(t)
	for _, name := range checkedPages {
		text, _ := page(t, name)
		checked := 0
		for _, quote := range quotes(text) {
			line, isLog := strings.CutPrefix(quote, `"`)
			_, fileErr := os.Stat(filepath.Join(root, quote))
			missing := ""
			switch {
			case isLog:
				if !texts[strings.TrimSuffix(line, `"`)] {
					missing = "log line"
				}
			case metric.MatchString(quote), urlism.MatchString(quote):
				if !texts[quote] {
					missing = "metric or path"
				}
			case strings.HasPrefix(quote, "Test"):
				if !tests[quote] {
					missing = "test"
				}
			case strings.Contains(quote, "/") && strings.Contains(quote, ".") && !strings.Contains(quote, " "):
				if fileErr != nil {
					missing = "file"
				}
			case goName.MatchString(quote):
				for _, found := range symbol.FindAllString(quote, -1) {
					pkg, _, _ := strings.Cut(found, ".")
					ours := packages[pkg] || pkg == found || ast.IsExported(pkg)
					if ours && !names[found] && !texts[found] {
						missing = "Go name"
					}
				}
			default:
				continue
			}
			checked++
			if missing != "" {
				t.Errorf("%s names the %s %s, which does not exist", name, missing, quote)
			}
		}
		if checked < 20 {
			t.Errorf("%s: only %d names found: the search is broken", name, checked)
		}
	}
}

// The commands of these pages can be run: the tests, targets, pages and metrics that they name exist.
func TestPagesCommandsExist(t *testing.T) {
	tests, texts := allTests(t), literals(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	commands := subcommands(t)
	inCommand := regexp.MustCompile(`\b(?:setpoint|controller_runtime|workqueue|rest_client|leader_election)_[a-z_]*[a-z]\b`)
	for _, name := range checkedPages {
		_, fences := page(t, name)
		for _, block := range fences["sh"] {
			for line := range strings.Lines(block) {
				words := strings.Fields(line)
				switch words[0] {
				case "go":
					checkGoTest(t, name, words, tests)
				case "make":
					if !strings.Contains(string(makefile), "\n"+words[1]+":") {
						t.Errorf("%s: the Makefile has no target %s", name, words[1])
					}
				case "curl":
					path := regexp.MustCompile(`localhost:\d+(/[a-z/]+)`).FindStringSubmatch(line)
					if path == nil || !texts[path[1]] {
						t.Errorf("%s: nothing is served there: %s", name, line)
					}
					for _, named := range inCommand.FindAllString(line, -1) {
						if !texts[named] {
							t.Errorf("%s: there is no metric %s", name, named)
						}
					}
				case "setpoint":
					if !commands[words[1]] {
						t.Errorf("%s: there is no command setpoint %s", name, words[1])
					}
				case "kubectl":
				default:
					t.Errorf("%s: unknown command: %s", name, line)
				}
			}
		}
	}
}

// subcommands returns the names of the commands of cmd/setpoint: the first words of their Use.
func subcommands(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range files(t) {
		if f.test || !within(f.pkg, "cmd/setpoint") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, isName := pair.Key.(*ast.Ident)
			use, isText := pair.Value.(*ast.BasicLit)
			if isName && isText && key.Name == "Use" {
				name, _, _ := strings.Cut(strings.Trim(use.Value, `"`), " ")
				names[name] = true
			}
			return true
		})
	}
	return names
}

// checkGoTest checks `go test ./folder -run '^(TestA|TestB)$'`.
func checkGoTest(t *testing.T, page string, words []string, tests map[string]bool) {
	t.Helper()
	if len(words) != 5 || words[1] != "test" || words[3] != "-run" {
		t.Errorf("%s: not go test FOLDER -run TESTS: %v", page, words)
		return
	}
	for _, test := range strings.Split(strings.Trim(words[4], "'^$()"), "|") {
		if folder := filepath.Clean(words[2]); !tests[folder+" "+test] {
			t.Errorf("%s: %s has no test %s", page, folder, test)
		}
	}
}

// Snippets are parts of what is compiled and run: of Go code in module test, and of manifests in examples.
func TestPagesSnippetsAreOfWhatRuns(t *testing.T) {
	sources := map[string]string{"go": "", "yaml": ""}
	for language, folder := range map[string]string{"go": "test", "yaml": "examples"} {
		for _, pattern := range []string{"/*.", "/*/*."} {
			paths, err := filepath.Glob(filepath.Join(root, folder+pattern+language))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				sources[language] += "\n" + string(data)
			}
		}
	}
	compared := 0
	for _, name := range checkedPages {
		_, fences := page(t, name)
		for language, source := range sources {
			for _, snippet := range fences[language] {
				compared++
				if !strings.Contains(source, "\n"+snippet) {
					t.Errorf("%s has a snippet that is not, as it stands, in what is compiled or applied:\n%s", name, snippet)
				}
			}
		}
	}
	if compared < 8 {
		t.Errorf("only %d snippets found: the search is broken", compared)
	}
}
