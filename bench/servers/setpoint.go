package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startSetpoint runs the command and waits for its ready line.
func startSetpoint(ctx context.Context, command string) (*server, error) {
	dir, err := os.MkdirTemp("", "setpoint-bench-")
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	cmd := exec.CommandContext(ctx, command, "up", "--operators", "none", "--kubeconfig", kubeconfig)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", command, err)
	}
	ready, err := readyLine(out)
	took := time.Since(begin)
	s := &server{ready: took, pids: []int{cmd.Process.Pid}, stop: func() error { return errors.Join(interrupt(cmd), os.RemoveAll(dir)) }}
	if err == nil {
		s.config, err = unlimited(kubeconfig)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s up: %w", command, err), s.stop())
	}
	go io.Copy(io.Discard, ready) //nolint:errcheck // ends with the process
	return s, nil
}

// readyLine reads up to the line that says that the plane is ready, and returns what follows.
func readyLine(out io.Reader) (io.Reader, error) {
	lines := bufio.NewReader(out)
	var seen strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if strings.Contains(line, "ready in ") {
			return lines, nil
		}
		seen.WriteString(line)
		if err != nil {
			return nil, fmt.Errorf("ended without being ready, after printing %q: %w", seen.String(), err)
		}
	}
}

// interrupt ends a process as Ctrl-C does.
func interrupt(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return cmd.Wait()
}

// unlimited reads a kubeconfig for a client that sends as fast as it can.
func unlimited(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}
