package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inProject runs a program in a folder, with more in its environment, and returns what it printed; it must succeed.
func inProject(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), strings.Join(args, " "), err, out, &errOut)
	}
	return string(out)
}

// goCaches returns where the go command keeps what it has built, fetched and been told, for one that runs in another home.
func goCaches(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOENV"} {
		env = append(env, name+"="+strings.TrimSpace(inProject(t, ".", nil, "go", "env", name)))
	}
	return slices.Clip(env)
}

// TestNewProject does what a user does who begins: a project in an empty folder, another kind, another version, webhooks. It compiles,
// its generator has nothing to add, its tests pass, and its operator does its work on `setpoint up`.
func TestNewProject(t *testing.T) {
	caches := goCaches(t)
	home(t)
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self := func(args ...string) string {
		return inProject(t, dir, []string{asCommand + "=yes"}, os.Args[0], args...)
	}
	began := time.Now()
	out := self("new", "--setpoint-dir", repository)
	for _, part := range []string{"made api/v1alpha1/shop_types.go\n", "\n  make test\n"} {
		if !strings.Contains(out, part) {
			t.Errorf("does not say %q:\n%s", part, out)
		}
	}
	self("new", "api", "--kind", "Till", "--namespaced=false")
	self("new", "api", "--kind", "Shop", "--version", "v1")
	self("new", "webhook", "--kind", "Shop", "--defaulting", "--programmatic-validation", "--conversion")

	golang := func(args ...string) {
		t.Helper()
		inProject(t, dir, append(caches, "GOWORK=off", "GOFLAGS=-mod=readonly"), "go", args...)
	}
	t.Run("generate", func(t *testing.T) { generatesNothing(t, dir, caches) })
	golang("build", "-o", "bin/manager", "./cmd")
	golang("vet", "./api/...", "./cmd/...", "./internal/...")
	golang("test", "-vet=off", "-ldflags=-s -w", "-race="+strconv.FormatBool(underRaceDetector()), "./...")
	t.Logf("from an empty folder to green tests: %v", time.Since(began).Round(time.Millisecond))
	t.Run("up", func(t *testing.T) { runsOnUp(t, dir) })
}

// underRaceDetector reports whether this test was built with -race: then all of Kubernetes is compiled that way already,
// and a test of the project that is built the same way need not compile it once more.
func underRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// generatesNothing checks that `make generate` changes no file.
func generatesNothing(t *testing.T, dir string, caches []string) {
	before := generated(t, dir)
	inProject(t, dir, append(caches, "GOWORK=off"), "make", "generate")
	if diff := cmp.Diff(before, generated(t, dir)); diff != "" {
		t.Errorf("the generator makes something else (-scaffolded +generated):\n%s", diff)
	}
}

// generated returns what the generator writes in a project.
func generated(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"api/*/zz_generated.deepcopy.go", "config/*/*.yaml", "config/crd/bases/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[path] = string(data)
		}
	}
	return files
}

// runsOnUp runs the project's operator against a plane with its samples, and its manifests through the API server.
func runsOnUp(t *testing.T, dir string) {
	kubeconfig := filepath.Join(dir, ".plane.kubeconfig")
	started(t, dir, "ready in ", []string{asCommand + "=yes"}, os.Args[0], "up", "--operators", "none", "--kubeconfig", kubeconfig,
		"-f", "config/crd/bases", "-f", "config/manager/namespace.yaml", "-f", "config/rbac", "-f", "config/samples/shop.example.com_v1alpha1_shop.yaml")
	started(t, dir, `{"`, []string{"KUBECONFIG=" + kubeconfig}, filepath.Join(dir, "bin/manager"), "--leader-election-namespace=shop-system",
		"--metrics-bind-address=", "--health-probe-bind-address=127.0.0.1:0")
	kubectl := func(args ...string) string {
		return inProject(t, dir, []string{asCommand + "=yes"}, os.Args[0], append([]string{"kubectl", "--kubeconfig", kubeconfig}, args...)...)
	}
	kubectl("wait", "shop/shop-sample", "--for=condition=Ready", "--timeout=60s")
	if got := kubectl("get", "deployment", "shop-sample", "-o", "jsonpath={.status.availableReplicas}"); got != "2" {
		t.Errorf("%s replicas are available, want 2", got)
	}
	kubectl("apply", "--server-side", "-k", "config")
	kubectl("-n", "shop-system", "rollout", "status", "deployment/shop", "--timeout=60s")
}

// started starts a program that runs until the test ends, and returns when it has printed a line that begins with a text. Interrupted,
// it must end without an error.
func started(t *testing.T, dir, begins string, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out := newOutput(begins)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case <-out.seen:
	case err := <-exited:
		t.Fatalf("%s ended at once: %v\n%s", filepath.Base(program), err, out)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := <-exited; err != nil || t.Failed() {
			t.Errorf("%s, interrupted, ended with %v; it printed\n%s", filepath.Base(program), err, out)
		}
	})
}

func TestNewIsMisused(t *testing.T) {
	home(t)
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		line string
		code int
		says string
	}{
		{"new there", 2, `takes no argument, but was given "there"`},
		{"new api", 2, "--kind is missing"},
		{"new webhook", 2, "--kind is missing"},
		{"new api --kind Shop", 1, "not in a project"},
		{"new webhook --kind Shop --validation", 1, "not in a project"},
		{"new --kind shop --version 1 --setpoint-dir .", 1, "--version"},
		{"init", 2, `did you mean "new"?`},
	} {
		var out, errOut bytes.Buffer
		code := run(t.Context(), strings.Fields(test.line), streams{in: strings.NewReader(""), out: &out, err: &errOut})
		if code != test.code || !strings.Contains(errOut.String(), test.says) {
			t.Errorf("setpoint %s: exit code %d, want %d, saying %q:\n%s", test.line, code, test.code, test.says, &errOut)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("something was made: %v, %v", entries, err)
	}
}

func TestSetpointSource(t *testing.T) {
	for _, test := range []struct {
		dir, version, file string
		wantVersion        string
		wantDir            string
		fails              bool
	}{
		{"../clone", "v1.2.3", "/src/cmd/setpoint/new.go", "", "../clone", false},
		{"", "v1.2.3", "/src/cmd/setpoint/new.go", "v1.2.3", "", false},
		{"", "v1.2.3-rc.1", "/src/cmd/setpoint/new.go", "v1.2.3-rc.1", "", false},
		{"", "v1.2.3-4-gabcdef0", "/src/cmd/setpoint/new.go", "", "/src", false},
		{"", "v1.2.4-0.20260101000000-abcdef012345", "/src/cmd/setpoint/new.go", "", "/src", false},
		{"", "v1.2.3-dirty", "/src/cmd/setpoint/new.go", "", "/src", false},
		{"", "(devel)", "github.com/setpoint-dev/setpoint/cmd/setpoint/new.go", "", "", true},
	} {
		got, err := setpointSource(test.dir, test.version, test.file)
		if (err != nil) != test.fails || got.Version != test.wantVersion || got.Dir != test.wantDir {
			t.Errorf("%+v: got version %q, folder %q, error %v", test, got.Version, got.Dir, err)
		}
	}
}
