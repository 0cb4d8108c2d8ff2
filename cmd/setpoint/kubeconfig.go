package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/plane"
)

// replaceable returns an error unless a kubeconfig can be written to path, where none is or that of a plane that is gone.
// An empty path stands for no file.
func replaceable(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("--kubeconfig: %s is not a folder: make it, or name a file in another one", filepath.Dir(path))
	}
	old, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--kubeconfig: %s exists and is no kubeconfig: remove it or name another file (%w)", path, err)
	}
	for name := range old.Clusters {
		if name != plane.ContextName {
			return fmt.Errorf("--kubeconfig: %s tells of another cluster (%s): name another file", path, name)
		}
	}
	return unused(path)
}

// unused returns an error if path is the kubeconfig of a plane that runs.
func unused(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	records, err := allRecords()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Kubeconfig == path && answers(r.Address) {
			return fmt.Errorf("--kubeconfig: %s is that of the plane at %s, which runs: name another file", path, r.Address)
		}
	}
	return nil
}
