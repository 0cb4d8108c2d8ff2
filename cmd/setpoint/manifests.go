package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifest is one object to apply and where it was read.
type manifest struct {
	object *unstructured.Unstructured
	source string // file and document, for messages
}

// readManifests reads files, folders (their *.yaml, *.yml and *.json files by name, not those of folders in them) and "-",
// the standard input, which ctx can interrupt. All mistakes come back at once.
func readManifests(ctx context.Context, paths []string, in io.Reader) ([]manifest, error) {
	var all []manifest
	var errs []error
	for _, path := range paths {
		files, err := expand(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("-f: %w", err))
		}
		for _, file := range files {
			data, err := readFile(ctx, file, in)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			found, err := decodeManifests(file, data)
			all = append(all, found...)
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// expand lists the files that a path stands for.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no .yaml, .yml or .json file", path)
	}
	return files, nil
}

func readFile(ctx context.Context, path string, in io.Reader) ([]byte, error) {
	if path != "-" {
		return os.ReadFile(path)
	}
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(in)
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("reading the standard input: %w", context.Cause(ctx))
	}
}

// decodeManifests reads the objects of one file: YAML or JSON documents, lists taken apart.
func decodeManifests(file string, data []byte) ([]manifest, error) {
	var all []manifest
	var errs []error
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, errors.Join(errs...)
		}
		if err != nil {
			return all, errors.Join(append(errs, fmt.Errorf("%s: %w", file, err))...)
		}
		source := fmt.Sprintf("%s, document %d", file, n)
		objects, err := decodeDocument(document)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
		for _, o := range objects {
			all = append(all, manifest{o, source})
		}
	}
}

// decodeDocument reads one YAML or JSON document: no object when it is empty, several when it is a list.
func decodeDocument(document []byte) ([]*unstructured.Unstructured, error) {
	var content map[string]any
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	if !bytes.HasPrefix(data, []byte("{")) {
		return nil, errors.New("no Kubernetes object: it is not a map of fields")
	}
	// Kubernetes' own decoder keeps whole numbers whole.
	u := &unstructured.Unstructured{}
	if err := runtime.DecodeInto(unstructured.UnstructuredJSONScheme, data, u); err != nil {
		if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) {
			return nil, errors.New("no Kubernetes object: apiVersion or kind is missing")
		}
		return nil, err
	}
	content = u.Object
	if _, list := content["items"]; !list || !u.IsList() {
		if u.GetName() == "" {
			return nil, fmt.Errorf("%s has no metadata.name", u.GetKind())
		}
		return []*unstructured.Unstructured{u}, nil
	}
	var objects []*unstructured.Unstructured
	err = u.EachListItem(func(item runtime.Object) error {
		objects = append(objects, item.(*unstructured.Unstructured))
		return nil
	})
	return objects, err
}

// applyOrder sorts manifests so that what others need comes first: CustomResourceDefinitions, then namespaces, then the
// rest as it was given.
func applyOrder(all []manifest) {
	rank := func(m manifest) int {
		switch m.object.GroupVersionKind().GroupKind() {
		case crdKind:
			return 0
		case namespaceKind:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(all, func(a, b manifest) int { return rank(a) - rank(b) })
}

// name says what an object is in messages: "Deployment default/web".
func name(o metav1.Object, kind string) string {
	if ns := o.GetNamespace(); ns != "" {
		return kind + " " + ns + "/" + o.GetName()
	}
	return kind + " " + o.GetName()
}
