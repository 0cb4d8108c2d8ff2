package hygiene

import (
	"go/ast"
	"slices"
	"testing"
)

// TestGoroutineLeaksAreLookedFor holds for the packages of module 1 that start goroutines, in tests or else.
func TestGoroutineLeaksAreLookedFor(t *testing.T) {
	starts, tested, checked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range files(t) {
		if within(f.pkg, otherModules()...) {
			continue
		}
		starts[f.pkg] = starts[f.pkg] || startsGoroutines(f.syntax)
		tested[f.pkg] = tested[f.pkg] || f.test
		checked[f.pkg] = checked[f.pkg] || f.test && slices.Contains(f.imports, "go.uber.org/goleak")
	}
	for pkg := range starts {
		if starts[pkg] && tested[pkg] && !checked[pkg] {
			t.Errorf("%s starts goroutines: give its tests func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }", pkg)
		}
	}
	if !starts["queue"] || !checked["queue"] {
		t.Error("the queue's goroutines and their check are not found: this test is broken")
	}
}

// startsGoroutines reports whether a file has a go statement or calls a method Go, as a sync.WaitGroup has.
func startsGoroutines(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			found = found || ok && method.Sel.Name == "Go"
		}
		return !found
	})
	return found
}
