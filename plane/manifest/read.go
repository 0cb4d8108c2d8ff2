package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Read returns the objects of manifest files, YAML or JSON. A directory stands for
// its files with the suffixes .yaml, .yml and .json, by name, without those of its
// subdirectories. Lists are returned as their items. The error names every file
// that cannot be read.
func Read(paths ...string) ([]*unstructured.Unstructured, error) {
	files, err := expand(paths)
	errs := []error{err}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := Decode(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading %s: %w", file, err))
			continue
		}
		objects = append(objects, found...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return objects, nil
}

// expand replaces directories by the manifest files in them.
func expand(paths []string) ([]string, error) {
	var files []string
	var errs []error
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, entry := range entries { // ReadDir sorts
			if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
	}
	return files, errors.Join(errs...)
}

// Decode returns the objects of one manifest.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		found, err := decodeOne(document)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		objects = append(objects, found...)
	}
}

func decodeOne(document []byte) ([]*unstructured.Unstructured, error) {
	content := map[string]any{}
	if err := yaml.Unmarshal(document, &content); err != nil {
		return nil, err
	}
	if len(content) == 0 { // nothing but comments
		return nil, nil
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetAPIVersion() == "" || object.GetKind() == "" {
		return nil, errors.New("no apiVersion or no kind: this is not a Kubernetes object")
	}
	if !object.IsList() {
		if object.GetName() == "" {
			return nil, fmt.Errorf("a %s without metadata.name cannot be applied", object.GetKind())
		}
		return []*unstructured.Unstructured{object}, nil
	}
	var objects []*unstructured.Unstructured
	err := object.EachListItem(func(item runtime.Object) error {
		objects = append(objects, item.(*unstructured.Unstructured))
		return nil
	})
	return objects, err
}
