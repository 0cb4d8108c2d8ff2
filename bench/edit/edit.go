package edit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Runs is how often a line is changed; the best run counts.
const Runs = 3

// Measure changes one line of the test in a folder below dir, runs it, and returns the time that took once everything else is
// compiled. Env is added to the environment.
func Measure(ctx context.Context, dir, name string, env ...string) (time.Duration, error) {
	folder := filepath.Join(dir, name)
	line := filepath.Join(folder, "line_test.go")
	defer os.Remove(line)
	var best time.Duration
	for i := range Runs + 1 { // the first one compiles the dependencies
		text := fmt.Sprintf("//go:build edit\n\npackage edited\n\nconst line = %d\n", time.Now().UnixNano())
		if err := os.WriteFile(line, []byte(text), 0o644); err != nil {
			return 0, err
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-tags", "edit", "-vet=off", "-count=1", ".")
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), env...)
		begin := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(begin)
		if err != nil {
			return 0, errors.Join(fmt.Errorf("the test in %s: %w\n%s", folder, err, out), os.Remove(line))
		}
		if i > 0 && (best == 0 || took < best) {
			best = took
		}
	}
	return best, nil
}
