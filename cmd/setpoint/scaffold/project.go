package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// record is the file in a project's root that tells what was scaffolded.
const record = "PROJECT"

// layout names the arrangement of the files, for later versions of this package.
const layout = "setpoint.dev/v1"

// Project is what is known of a project: the content of its PROJECT file, which names things as kubebuilder's does.
type Project struct {
	// Layout is the arrangement of the files.
	Layout string `json:"layout"`
	// Domain is what the groups of its kinds end with.
	Domain string `json:"domain"`
	// Name names the program, its namespace, its ServiceAccount and its roles: a DNS label.
	Name string `json:"projectName"`
	// Repo is the path of its Go module.
	Repo string `json:"repo"`
	// Resources are its kinds, in the order in which they were added.
	Resources []Resource `json:"resources,omitempty"`

	root string
}

// Resource is one version of a kind.
type Resource struct {
	// Group is the kind's group without the project's domain. It may be empty.
	Group string `json:"group,omitempty"`
	// Version is such as v1alpha1.
	Version string `json:"version"`
	// Kind is such as Website.
	Kind string `json:"kind"`
	// Plural is such as websites.
	Plural string `json:"plural"`
	// Namespaced says whether objects are in namespaces.
	Namespaced bool `json:"namespaced"`
	// Path is the Go package of the types.
	Path string `json:"path"`
	// Webhooks are those of this version.
	Webhooks Webhooks `json:"webhooks,omitzero"`
}

// Webhooks says which webhooks a kind has.
type Webhooks struct {
	// Defaulting changes objects before they are stored.
	Defaulting bool `json:"defaulting,omitempty"`
	// Validation refuses objects.
	Validation bool `json:"validation,omitempty"`
	// Conversion makes objects of this version of those of the stored one, and back.
	Conversion bool `json:"conversion,omitempty"`
}

// Namespace is where the program runs.
func (p *Project) Namespace() string { return p.Name + "-system" }

// Open reads the project that a folder is in.
func Open(dir string) (*Project, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for root := start; ; root = filepath.Dir(root) {
		data, err := os.ReadFile(filepath.Join(root, record))
		if err == nil {
			return decodeProject(root, data)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading the project's record: %w", err)
		}
		if filepath.Dir(root) == root {
			return nil, fmt.Errorf("%s is not in a project: there is no file %s in it or above; make a project with 'setpoint new'", start, record)
		}
	}
}

func decodeProject(root string, data []byte) (*Project, error) {
	p := &Project{root: root}
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		if strings.Contains(string(data), "kubebuilder.io") {
			err = errors.New("it was made by kubebuilder or operator-sdk, whose files are arranged in another way")
		}
		return nil, fmt.Errorf("%s is not the record of a project of 'setpoint new': %w", filepath.Join(root, record), err)
	}
	if p.Layout != layout {
		return nil, fmt.Errorf("%s names the layout %q, and this version of setpoint knows %q only", filepath.Join(root, record), p.Layout, layout)
	}
	if len(p.Resources) == 0 {
		return nil, fmt.Errorf("%s lists no kinds, and a project has one at least", filepath.Join(root, record))
	}
	return p, nil
}

// encode returns the content of the PROJECT file.
func (p *Project) encode() ([]byte, error) {
	data, err := yaml.Marshal(p)
	if err != nil {
		return nil, err
	}
	return append([]byte("# Written by 'setpoint new', and read when a kind or a webhook is added.\n"), data...), nil
}

// save plans to write the record.
func (p *Project) save(plan *Plan) {
	plan.edit(record, func([]byte) ([]byte, error) { return p.encode() })
}

// FullGroup is the API group of a resource.
func (p *Project) FullGroup(r Resource) string {
	if r.Group == "" {
		return p.Domain
	}
	return r.Group + "." + p.Domain
}

// folder is where the types of a group and version are: api/v1 for the group of the first kind, api/<group>/v1 for others.
func (p *Project) folder(r Resource) string {
	if len(p.Resources) == 0 || p.Resources[0].Group == r.Group {
		return "api/" + r.Version
	}
	return "api/" + strings.ReplaceAll(p.FullGroup(r), ".", "-") + "/" + r.Version
}
