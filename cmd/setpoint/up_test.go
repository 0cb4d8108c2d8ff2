package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// output keeps what a command writes and tells when a line begins with a certain text.
type output struct {
	mu    sync.Mutex
	data  bytes.Buffer
	until string
	seen  chan struct{}
}

func newOutput(until string) *output { return &output{until: until, seen: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := strings.Contains("\n"+o.data.String(), "\n"+o.until)
	n, err := o.data.Write(p)
	if !before && strings.Contains("\n"+o.data.String(), "\n"+o.until) {
		close(o.seen)
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}

// TestUp drives one plane as its user does: it is started with the quickstart, used by kubectl, and interrupted.
func TestUp(t *testing.T) {
	home(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, errOut := newOutput("ready in "), newOutput("never")
	exited := make(chan int, 1)
	go func() {
		exited <- run(ctx, []string{"up", "-f", "../../examples/quickstart", "--wait", "--kubeconfig", kubeconfig},
			streams{in: strings.NewReader(""), out: out, err: errOut})
	}()
	select {
	case <-out.seen:
	case code := <-exited:
		t.Fatalf("ended before it was ready, with code %d:\n%s%s", code, out, errOut)
	}

	t.Run("kubeconfig", func(t *testing.T) {
		info, err := os.Stat(kubeconfig)
		if err != nil {
			t.Fatal("the ready line came before the kubeconfig:", err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("its mode is %o: it holds a key", info.Mode().Perm())
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if line := "ms: " + config.Host + ", kubeconfig " + kubeconfig + "\n"; !strings.Contains(out.String(), line) {
			t.Errorf("the ready line does not contain %q:\n%s", line, out)
		}
	})
	scripts, err := filepath.Glob("testdata/kubectl/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txt"), func(t *testing.T) { runScript(t, script) })
	}
	t.Run("completion of names", func(t *testing.T) {
		if got, errOut, code := command(t, "__complete", "kubectl", "get", "namespaces", "quick"); code != 0 || !strings.Contains(got, "quickstart\n") {
			t.Errorf("got %q, %q, exit code %d", got, errOut, code)
		}
	})

	interrupt()
	if code := <-exited; code != 0 {
		t.Errorf("interrupted, it exits with %d", code)
	}
	if errOut.String() != "" {
		t.Errorf("without --verbose it wrote errors:\n%s", errOut)
	}
	if _, err := lastPlane(); err == nil {
		t.Error("the plane is gone, and kubectl would still use it")
	}
}

// TestUpIsInterruptedWhileItReads: whoever interrupts does not wait for input.
func TestUpIsInterruptedWhileItReads(t *testing.T) {
	home(t)
	silent, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer open.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	out := newOutput("never")
	if code := run(ctx, []string{"up", "-f", "-"}, streams{in: silent, out: out, err: out}); code != 0 {
		t.Errorf("code %d:\n%s", code, out)
	}
}

// TestUpIsInterruptedWhileItStarts: nor for the start. It is a process of its own, which is left with the start under way.
func TestUpIsInterruptedWhileItStarts(t *testing.T) {
	home(t)
	cmd := exec.Command(os.Args[0], "up")
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	out := newOutput("starting the control plane")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-out.seen
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v:\n%s", err, out)
	}
}
