package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// home gives the test a cache folder of its own.
func home(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", filepath.Join(os.Getenv("HOME"), ".cache"))
	t.Setenv("KUBECONFIG", "")
}

// listen returns the address of something that accepts connections.
func listen(t *testing.T) (string, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), func() { l.Close() }
}

func TestLastPlane(t *testing.T) {
	home(t)
	if _, err := lastPlane(); err == nil || !strings.Contains(err.Error(), "setpoint up") {
		t.Errorf("without any plane: got %v, want an error that says what to do", err)
	}
	start := time.Unix(1_000_000_000, 0)
	write := func(at time.Duration, address string) record {
		t.Helper()
		dir, err := newRecordDir(start.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		r := record{Address: address, Kubeconfig: "/k-" + address, dir: dir}
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, _ := listen(t)
	second, stop := listen(t)
	a, b := write(0, first), write(time.Hour, second)
	starting, err := newRecordDir(start.Add(2 * time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(why string, want record) {
		t.Helper()
		got, err := lastPlane()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	expect("not the one started last that is ready", b)
	stop()
	expect("not the one before, after the last one was killed", a)

	if _, err := newRecordDir(start.Add(2*time.Hour + time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.dir); !os.IsNotExist(err) {
		t.Errorf("what the killed plane left is still there: %v", err)
	}
	for _, dir := range []string{a.dir, starting} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("another plane's folder was removed: %v", err)
		}
	}

	if _, err := newRecordDir(start.Add(3 * time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(starting); !os.IsNotExist(err) {
		t.Errorf("what a start that was killed left is still there: %v", err)
	}
	if _, err := os.Stat(a.dir); err != nil {
		t.Errorf("a running plane's folder was removed: %v", err)
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || string(data) != "new" {
		t.Errorf("got mode %o and content %q", info.Mode().Perm(), data)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".kubeconfig*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKubeconfigsOfOthersAreKept(t *testing.T) {
	home(t)
	const ours = "apiVersion: v1\nkind: Config\nclusters: [{name: setpoint, cluster: {server: 'https://127.0.0.1:1'}}]\n"
	for _, test := range []struct {
		why, before string
		ok          bool
	}{
		{"of an earlier plane", ours, true},
		{"of another cluster", strings.ReplaceAll(ours, "setpoint", "production"), false},
		{"no kubeconfig", "just: [text", false},
	} {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := replaceable(path); (err == nil) != test.ok {
			t.Errorf("%s: got %v", test.why, err)
		}
	}
	if err := replaceable(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("no file there: got %v", err)
	}
	if err := replaceable(filepath.Join(t.TempDir(), "none", "file")); err == nil {
		t.Error("no folder there: got no error")
	}
}

// Whoever uses the kubeconfig of a plane that runs must not find another plane in it.
func TestKubeconfigOfRunningPlaneIsKept(t *testing.T) {
	home(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	address, stop := listen(t)
	dir, err := newRecordDir(time.Unix(1_000_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (record{Address: address, Kubeconfig: path, dir: dir}).write(); err != nil {
		t.Fatal(err)
	}
	if err := replaceable(path); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("while it runs: got %v", err)
	}
	stop()
	if err := replaceable(path); err != nil {
		t.Errorf("after it stopped: got %v", err)
	}
}
