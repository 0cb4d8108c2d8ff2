package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// New plans a project with its first kind in an empty folder, which need not exist. Hidden files and a licence may be there.
func New(root string, p Project, first Resource, setpoint Setpoint) (*Plan, error) {
	p.Layout, p.root, p.Resources = layout, root, nil
	first = p.complete(first)
	deps, err := setpoint.modules(&p)
	if err := errors.Join(p.check(), p.checkResource(first), checkEmpty(root), err); err != nil {
		return nil, err
	}
	plan := &Plan{root: root}
	plan.renderAll("project", &p)
	plan.make("go.mod", deps.mod)
	plan.make("go.sum", deps.sum)
	plan.make("tools/go.mod", render("tools/go.mod.tmpl", &p))
	plan.make("tools/go.sum", render("tools/go.sum.tmpl", &p))
	plan.make(".gitignore", render("tools/gitignore.tmpl", &p))
	plan.make(record, nil)
	p.addKind(plan, first)
	p.save(plan)
	return plan.finish()
}

// checkEmpty returns what is in the way in a folder.
func checkEmpty(root string) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "LICENSE") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	const shown = 10
	if len(names) > shown {
		names = append(names[:shown], fmt.Sprintf("… (%d in all)", len(names)))
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	return fmt.Errorf("the folder %s is not empty: %s; make a project in an empty one", abs, strings.Join(names, ", "))
}
