// Command image writes a container image as an OCI archive, without Docker: one program per platform, on nothing.
//
//	image OUTPUT VERSION PLATFORM=PROGRAM…
//
// A platform is an operating system and an architecture, such as linux/amd64. The same input makes the same archive.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is nobody in particular, as in other images without an operating system.
const user = "65532:65532"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: image OUTPUT VERSION PLATFORM=PROGRAM...")
	}
	output, version := args[0], args[1]
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range args[2:] {
		name, program, ok := strings.Cut(arg, "=")
		platform, err := v1.ParsePlatform(name)
		if !ok || err != nil || platform.Architecture == "" {
			return fmt.Errorf("%q is not like linux/amd64=PROGRAM", arg)
		}
		image, err := imageOf(program, version, *platform)
		if err != nil {
			return fmt.Errorf("image of %s: %w", arg, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	// Who loads the archive finds one thing in it, by its version: the index of all platforms.
	top := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": version}},
	})
	if _, err := layout.Write(folder, top); err != nil {
		return err
	}
	return archive(output, folder)
}

// imageOf returns an image that holds a program and runs it.
func imageOf(program, version string, platform v1.Platform) (v1.Image, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	name := "/" + filepath.Base(program)
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	err = errors.Join(
		w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}),
		write(w, data), w.Close())
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config = v1.Config{
		Entrypoint: []string{name},
		User:       user,
		Labels: map[string]string{
			"org.opencontainers.image.title":   "setpoint-operators",
			"org.opencontainers.image.version": version,
		},
	}
	return mutate.ConfigFile(image, config)
}

func write(to io.Writer, data []byte) error {
	_, err := to.Write(data)
	return err
}

// archive writes the files of a folder as a tar file.
func archive(output, folder string) (err error) {
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	defer func() { err = errors.Join(err, w.Close()) }()
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return errors.Join(w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}), write(w, data))
	})
}
