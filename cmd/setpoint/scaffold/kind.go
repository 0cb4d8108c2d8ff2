package scaffold

import (
	"cmp"
	"strings"
)

// kindData is what the templates of a kind see.
type kindData struct {
	*Project
	Resource
	FullGroup string
	Singular  string // the kind in small letters
	Lower     string // the beginning of unexported Go names
	Alias     string // what imports call the package of the types
	Storage   bool   // whether this version is stored
}

func (p *Project) dataOf(r Resource) kindData {
	return kindData{
		Project: p, Resource: r,
		FullGroup: p.FullGroup(r), Singular: strings.ToLower(r.Kind), Lower: lowerFirst(r.Kind), Alias: p.alias(r),
		Storage: p.stored(r).Version == r.Version,
	}
}

// stored returns the version of a kind that is stored: the one that was added first.
func (p *Project) stored(r Resource) Resource {
	for _, have := range p.Resources {
		if have.Kind == r.Kind && have.Group == r.Group {
			return have
		}
	}
	return r
}

// complete fills in what follows from the rest.
func (p *Project) complete(r Resource) Resource {
	r.Plural = cmp.Or(r.Plural, plural(r.Kind))
	r.Path = p.Repo + "/" + p.folder(r)
	return r
}

// AddKind plans a kind, or another version of one.
func (p *Project) AddKind(r Resource) (*Plan, error) {
	for _, have := range p.Resources {
		if have.Kind == r.Kind && have.Group == r.Group {
			r.Plural = cmp.Or(r.Plural, have.Plural)
		}
	}
	r = p.complete(r)
	if err := p.checkResource(r); err != nil {
		return nil, err
	}
	plan := &Plan{root: p.root}
	p.addKind(plan, r)
	p.save(plan)
	return plan.finish()
}

// addKind plans the files of r and puts it in the record.
func (p *Project) addKind(plan *Plan, r Resource) {
	d := p.dataOf(r)
	p.addTypes(plan, d)
	p.addDefinition(plan, d)
	plan.make("config/samples/"+d.FullGroup+"_"+r.Version+"_"+d.Singular+".yaml", render("kind/sample.yaml.tmpl", d))
	if d.Storage {
		p.addController(plan, d)
	}
	p.Resources = append(p.Resources, r)
}

// addTypes plans the Go types of a kind.
func (p *Project) addTypes(plan *Plan, d kindData) {
	folder := p.folder(d.Resource)
	if version := folder + "/groupversion_info.go"; !plan.has(version) {
		plan.make(version, render("kind/groupversion_info.go.tmpl", d))
		plan.edit("internal/controller/setup.go", insert("imports", d.Alias+` "`+d.Path+`"`))
		plan.edit("internal/controller/setup.go", insert("scheme", d.Alias+".AddToScheme(s),"))
	}
	plan.edit(folder+"/groupversion_info.go", insert("kinds", "&"+d.Kind+"{}, &"+d.Kind+"List{},"))
	plan.make(folder+"/"+d.Singular+"_types.go", render("kind/types.go.tmpl", d))
	copies := folder + "/zz_generated.deepcopy.go"
	if !plan.has(copies) {
		plan.make(copies, render("kind/deepcopy_file.go.tmpl", d))
	}
	plan.edit(copies, addDeepCopies(d))
}

// addDefinition plans the CustomResourceDefinition of a kind.
func (p *Project) addDefinition(plan *Plan, d kindData) {
	file := d.FullGroup + "_" + d.Plural + ".yaml"
	definition, err := reformat(render("kind/crd.yaml.tmpl", d))
	if err != nil {
		plan.fail(err)
		return
	}
	if d.Storage {
		plan.make("config/crd/bases/"+file, definition)
		plan.edit("config/kustomization.yaml", insert("resources", "- crd/bases/"+file))
		return
	}
	plan.edit("config/crd/bases/"+file, addVersion(definition))
}

// addController plans the controller of a kind with its tests and rights.
func (p *Project) addController(plan *Plan, d kindData) {
	plan.make("internal/controller/"+d.Singular+"_controller.go", render("kind/controller.go.tmpl", d))
	plan.make("internal/controller/"+d.Singular+"_controller_test.go", render("kind/controller_test.go.tmpl", d))
	plan.make("test/"+d.Singular+"_test.go", render("kind/scenario_test.go.tmpl", d))
	plan.edit("internal/controller/setup.go", insert("controllers", "add"+d.Kind+"(m)"))
	plan.edit("config/rbac/role.yaml", addRules(render("kind/rules.yaml.tmpl", d)))
}
