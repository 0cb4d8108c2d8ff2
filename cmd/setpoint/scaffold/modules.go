package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// modulePath is the path of Setpoint's first module; those of the others begin with it.
const modulePath = "github.com/setpoint-dev/setpoint"

// needed are the modules that a project's own code imports.
var needed = []string{modulePath, modulePath + "/plane", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/klog/v2"}

// Setpoint says where a project gets Setpoint's modules from, and the versions of all others.
type Setpoint struct {
	// Version is that of a release. Empty: the sources in Dir.
	Version string
	// Dir is a folder with Setpoint's sources, which go.mod refers to when there is no Version. A relative one is taken from
	// the project's folder.
	Dir string
	// GoMod and GoSum are files of a module that has what a project has among its dependencies. A project begins with
	// the same versions.
	GoMod, GoSum []byte
}

// modules are the contents of go.mod and go.sum.
type modules struct{ mod, sum []byte }

// modules makes the go.mod and the go.sum of a project. They need no change before the first build, so that one can be made
// without a network; `go mod tidy` removes what is too much.
func (s Setpoint) modules(p *Project) (modules, error) {
	known, err := modfile.Parse("go.mod", s.GoMod, nil)
	if err != nil {
		return modules{}, err
	}
	mod := &modfile.File{}
	err = errors.Join(mod.AddModuleStmt(p.Repo), mod.AddGoStmt(known.Go.Version))
	version := s.Version
	if version == "" {
		version = "v0.0.0"
		err = errors.Join(err, s.replace(p.root, mod))
	}
	if err != nil {
		return modules{}, err
	}
	requires := []*modfile.Require{}
	for _, path := range needed[:2] {
		requires = append(requires, &modfile.Require{Mod: module.Version{Path: path, Version: version}})
	}
	for _, r := range known.Require {
		if r.Mod.Path != modulePath && !strings.HasPrefix(r.Mod.Path, modulePath+"/") {
			requires = append(requires, &modfile.Require{Mod: r.Mod, Indirect: !slices.Contains(needed, r.Mod.Path)})
		}
	}
	mod.SetRequireSeparateIndirect(requires)
	text, err := mod.Format()
	return modules{mod: text, sum: s.GoSum}, err
}

// replace makes go.mod refer to the sources.
func (s Setpoint) replace(root string, mod *modfile.File) error {
	dir, shown := s.Dir, filepath.ToSlash(s.Dir)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
		if !strings.HasPrefix(shown, ".") {
			shown = "./" + shown
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !bytes.Contains(data, []byte("module "+modulePath+"\n")) {
		return fmt.Errorf("%s does not hold the sources of %s: name a clone of its repository with --setpoint-dir", dir, modulePath)
	}
	return errors.Join(
		mod.AddReplace(modulePath, "", shown, ""),
		mod.AddReplace(modulePath+"/plane", "", shown+"/plane", ""))
}
