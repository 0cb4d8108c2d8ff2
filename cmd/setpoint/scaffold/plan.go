package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Plan is what is about to be done to the files below a folder.
type Plan struct {
	root    string
	changes []*change
	errs    []error
}

// change is what is about to be done to one file.
type change struct {
	path   string // below the root, with slashes
	before []byte // nil: the file does not exist
	after  []byte
}

// Made returns the files that are made, by name.
func (p *Plan) Made() []string {
	return p.paths(func(c *change) bool { return c.before == nil })
}

// Changed returns the files that exist and change, by name.
func (p *Plan) Changed() []string {
	return p.paths(func(c *change) bool { return c.before != nil && !bytes.Equal(c.before, c.after) })
}

func (p *Plan) paths(which func(*change) bool) []string {
	var paths []string
	for _, c := range p.changes {
		if which(c) {
			paths = append(paths, c.path)
		}
	}
	slices.Sort(paths)
	return paths
}

// fail notes that the plan cannot be carried out.
func (p *Plan) fail(err error) { p.errs = append(p.errs, err) }

// planned returns the change of a file that is in the plan already.
func (p *Plan) planned(path string) *change {
	for _, c := range p.changes {
		if c.path == path {
			return c
		}
	}
	return nil
}

// has reports whether a file exists or is about to.
func (p *Plan) has(path string) bool {
	if p.planned(path) != nil {
		return true
	}
	_, err := os.Lstat(filepath.Join(p.root, filepath.FromSlash(path)))
	return !errors.Is(err, fs.ErrNotExist)
}

// make plans a new file.
func (p *Plan) make(path string, content []byte) {
	if p.has(path) {
		p.fail(fmt.Errorf("%s is in the way: it is never overwritten", path))
		return
	}
	p.changes = append(p.changes, &change{path: path, after: content})
}

// edit plans a change of a file that exists or is about to.
func (p *Plan) edit(path string, edited func(old []byte) ([]byte, error)) {
	c := p.planned(path)
	if c == nil {
		content, err := os.ReadFile(filepath.Join(p.root, filepath.FromSlash(path)))
		if err != nil {
			p.fail(fmt.Errorf("reading %s: %w", path, withoutPath(err)))
			return
		}
		c = &change{path: path, before: content, after: content}
		p.changes = append(p.changes, c)
	}
	after, err := edited(c.after)
	if err != nil {
		p.fail(fmt.Errorf("%s: %w", path, err))
		return
	}
	c.after = after
}

// finish puts the Go files in their final form, and returns all that is wrong with the plan.
func (p *Plan) finish() (*Plan, error) {
	for _, c := range p.changes {
		if !strings.HasSuffix(c.path, ".go") || len(p.errs) > 0 {
			continue
		}
		formatted, err := formatGo(c.after)
		if err != nil {
			p.fail(fmt.Errorf("%s: %w", c.path, err))
			continue
		}
		c.after = formatted
	}
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Apply carries the plan out, or undoes what it did and returns why.
func (p *Plan) Apply() error {
	var undo []func() error
	err := p.apply(&undo)
	if err == nil {
		return nil
	}
	slices.Reverse(undo)
	for _, u := range undo {
		err = errors.Join(err, u())
	}
	return err
}

func (p *Plan) apply(undo *[]func() error) error {
	for _, c := range p.changes {
		path := filepath.Join(p.root, filepath.FromSlash(c.path))
		if c.before != nil {
			if err := c.rewrite(path, undo); err != nil {
				return err
			}
			continue
		}
		if err := makeFolder(filepath.Dir(path), undo); err != nil {
			return err
		}
		if err := c.write(path, undo); err != nil {
			return err
		}
	}
	return nil
}

// write makes the file, which must not exist.
func (c *change) write(path string, undo *[]func() error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	*undo = append(*undo, func() error { return os.Remove(path) })
	_, err = f.Write(c.after)
	return errors.Join(err, f.Close())
}

// rewrite changes the file, which must be as it was when the plan was made.
func (c *change) rewrite(path string, undo *[]func() error) error {
	now, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, c.before) {
		return fmt.Errorf("%s was changed by somebody else just now: try again", path)
	}
	*undo = append(*undo, func() error { return os.WriteFile(path, c.before, 0o644) })
	return os.WriteFile(path, c.after, 0o644)
}

// makeFolder makes a folder and those above it.
func makeFolder(path string, undo *[]func() error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := makeFolder(filepath.Dir(path), undo); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	*undo = append(*undo, func() error { return os.Remove(path) })
	return nil
}

// withoutPath leaves out the path of an error of package os, for messages that name the file by themselves.
func withoutPath(err error) error {
	if withPath := (*fs.PathError)(nil); errors.As(err, &withPath) {
		return withPath.Err
	}
	return err
}
