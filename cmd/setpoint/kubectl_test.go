package main

import (
	"strings"
	"testing"
)

func TestNeedsCluster(t *testing.T) {
	for line, want := range map[string]bool{
		"get pods":          true,
		"version":           true,
		"apply -f web.yaml": true,
		"":                  false,
		"get --help":        false,
		"version --client":  false,
		"config view":       false,
		"create namespace x --dry-run=client -o name": false,
		"completion bash": false,
	} {
		if got := needsCluster(strings.Fields(line)); got != want {
			t.Errorf("kubectl %s: got %v", line, got)
		}
	}
}
