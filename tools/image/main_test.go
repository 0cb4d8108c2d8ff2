package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// unpack extracts a tar file into a new folder.
func unpack(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		path := filepath.Join(folder, h.Name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "operators")
	if err := os.WriteFile(program, []byte("a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(t.TempDir(), "image.tar"), filepath.Join(t.TempDir(), "image.tar")
	for _, output := range []string{one, two} {
		if err := run([]string{output, "v1", "linux/amd64=" + program, "linux/arm64=" + program}); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := os.ReadFile(one)
	if second, _ := os.ReadFile(two); !bytes.Equal(first, second) {
		t.Error("the same input made two different archives")
	}

	top, err := layout.ImageIndexFromPath(unpack(t, one))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Fatalf("the archive holds %+v, %v", manifest, err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil || len(platforms.Manifests) != 2 {
		t.Fatalf("the index holds %+v, %v", platforms, err)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		d := platforms.Manifests[i]
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if d.Platform.Architecture != architecture || config.Architecture != architecture || config.Config.User != user ||
			len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/operators" {
			t.Errorf("%s: %+v %+v", architecture, d.Platform, config)
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("%s: %d layers, %v", architecture, len(layers), err)
		}
		content, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(content)
		h, err := r.Next()
		if err != nil || h.Name != "operators" || h.Mode != 0o755 {
			t.Errorf("%s: %+v, %v", architecture, h, err)
		}
		if data, err := io.ReadAll(r); string(data) != "a program" || err != nil {
			t.Errorf("%s: the program is %q, %v", architecture, data, err)
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range [][]string{nil, {"out", "v1"}, {"out", "v1", "linux/amd64"}, {"out", "v1", "linux=x"}, {"out", "v1", "linux/amd64=missing"}} {
		if run(args) == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
