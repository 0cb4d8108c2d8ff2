package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// filesIn returns the files that a page of documentation shows: each fenced block whose first line names a language and a
// file.
func filesIn(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	name, inside := "", false
	for line := range strings.Lines(string(text)) {
		switch info, fence := strings.CutPrefix(line, "```"); {
		case fence && inside:
			name, inside = "", false
		case fence:
			inside = true
			if words := strings.Fields(info); len(words) == 2 {
				name = words[1]
			}
		case name != "":
			files[name] += line
		}
	}
	return files
}

// workspace makes a module of the files in a folder, in a workspace with this repository's modules, so that it is built
// with the versions of the dependencies that everything else is built with.
func workspace(t *testing.T, module string, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	data, err := os.ReadFile("../go.work")
	if err != nil {
		t.Fatal(err)
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := "go " + work.Go.Version + "\nuse .\n"
	for _, use := range work.Use {
		path, err := filepath.Abs(filepath.Join("..", use.Path))
		if err != nil {
			t.Fatal(err)
		}
		text += "use " + path + "\n"
	}
	sums, err := os.ReadFile("../go.work.sum")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"go.mod": "module " + module + "\n\ngo " + work.Go.Version + "\n", "go.work": text, "go.work.sum": string(sums)}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestTutorial compiles what docs/tutorial.md shows, and runs its test.
func TestTutorial(t *testing.T) {
	files := filesIn(t, "../docs/tutorial.md")
	for _, name := range []string{"crd.yaml", "sessions.yaml", "types.go", "desired.go", "controller.go", "main.go", "memcached_test.go"} {
		if files[name] == "" {
			t.Errorf("the tutorial shows no %s", name)
		}
	}
	args := []string{"test", "-vet=off", "-ldflags=-s -w", "-count=1", "-timeout=2m", "-v"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "-race" && setting.Value == "true" {
				args = append(args, "-race") // what it needs is compiled that way already
			}
		}
	}
	command := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	command.Dir = workspace(t, "example.com/memcached", files)
	command.Env = append(os.Environ(), "GOWORK="+filepath.Join(command.Dir, "go.work"), "GOFLAGS=")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestMemcached") {
		t.Errorf("%s: %v\n%s", strings.Join(command.Args, " "), err, out)
	}
}
