package hygiene

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// laws is the number of the pipeline's laws.
const laws = 14

var quoted = regexp.MustCompile("`([^`]+)`")

// tests returns the names of all test functions of module 1.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range files(t) {
		if !f.test || within(f.pkg, otherModules()...) {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

// rows returns the table rows of a page, as the trimmed texts of their cells.
func rows(t *testing.T, page string) [][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") {
			continue
		}
		cells := strings.Split(line[1:len(line)-1], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

// quotes returns what a cell has in backquotes.
func quotes(cell string) []string {
	var out []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, match[1])
	}
	return out
}

// The table of laws is complete, and names nothing that does not exist.
func TestLawsHaveProofs(t *testing.T) {
	exists := tests(t)
	entries, err := filepath.Glob(filepath.Join(root, "test/mutants/*.patch"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d mutants: %v", len(entries), err)
	}
	patches := map[string]bool{} // and whether a row names it
	for _, entry := range entries {
		patches[filepath.Base(entry)] = false
	}
	var found []int
	for _, row := range rows(t, "docs/laws.md") {
		law, err := strconv.Atoi(row[0])
		if err != nil {
			continue // the head
		}
		found = append(found, law)
		if len(row) != 4 || len(quotes(row[2])) == 0 || len(quotes(row[3])) == 0 {
			t.Errorf("law %d: the row has %d cells, want the number, the law, at least one test and at least one patch", law, len(row))
			continue
		}
		for _, name := range quotes(row[2]) {
			if !exists[name] {
				t.Errorf("law %d names the test %s, which does not exist in module 1", law, name)
			}
		}
		for _, name := range quotes(row[3]) {
			if _, ok := patches[name]; !ok {
				t.Errorf("law %d names the patch %s, which does not exist", law, name)
			}
			patches[name] = true
		}
	}
	for law := range laws {
		if n := law + 1; !slices.Contains(found, n) {
			t.Errorf("law %d has no row", n)
		}
	}
	if len(found) != laws {
		t.Errorf("%d rows, want %d", len(found), laws)
	}
	for name, named := range patches {
		if !named {
			t.Errorf("test/mutants/%s breaks a law that no row names it for", name)
		}
	}
}

// Every regression has a test, and every test that is named after one has a row.
func TestRegressionsHaveTests(t *testing.T) {
	exists := tests(t)
	named := map[string]bool{}
	for _, row := range rows(t, "docs/regressions.md") {
		for _, name := range quotes(row[len(row)-1]) {
			named[name] = true
			if !exists[name] {
				t.Errorf("the row of %s names the test %s, which does not exist in module 1", row[0], name)
			}
		}
	}
	for name := range exists {
		if strings.HasPrefix(name, "TestBug") && !named[name] {
			t.Errorf("docs/regressions.md has no row for %s", name)
		}
	}
}

// What the troubleshooting page tells to look at exists: metrics by their names, and log lines, which it quotes.
func TestTroubleshootingPointsAtWhatExists(t *testing.T) {
	texts := literals(t)
	text, _ := page(t, "docs/troubleshooting.md")
	named := 0
	for _, name := range quotes(text) {
		line, isLog := strings.CutPrefix(name, `"`)
		if !isLog && !metric.MatchString(name) {
			continue
		}
		named++
		if !texts[strings.TrimSuffix(line, `"`)] {
			t.Errorf("docs/troubleshooting.md names %s, which is no metric and no log line of module 1", name)
		}
	}
	if named < 20 {
		t.Errorf("only %d metrics and log lines found: the search is broken", named)
	}
}
