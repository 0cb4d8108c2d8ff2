package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// render executes a template. Templates are part of this program, so one that fails is a bug.
func render(name string, data any) []byte {
	t, err := template.New("").Option("missingkey=error").ParseFS(templates, "templates/"+name)
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name[strings.LastIndex(name, "/")+1:], data); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err))
	}
	return out.Bytes()
}

// renderAll makes a file of each template of a folder, under its path in the folder.
func (p *Plan) renderAll(folder string, data any) {
	root := "templates/" + folder
	err := fs.WalkDir(templates, root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, "templates/")
		p.make(strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".tmpl"), render(name, data))
		return nil
	})
	if err != nil {
		panic(err) // the files are in the program
	}
}
