package scaffold

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/webhook"
)

// webhookData is what the templates of a webhook see.
type webhookData struct {
	kindData
	Hub          kindData // the version that is stored
	Capital      string   // the version as a part of Go names
	MutatePath   string
	ValidatePath string
	Mutating     bool
}

func (p *Project) webhookDataOf(r Resource) webhookData {
	gvk := schema.GroupVersionKind{Group: p.FullGroup(r), Version: r.Version, Kind: r.Kind}
	return webhookData{
		kindData: p.dataOf(r), Hub: p.dataOf(p.stored(r)),
		Capital:    strings.ToUpper(r.Version[:1]) + r.Version[1:],
		MutatePath: webhook.MutatePath(gvk), ValidatePath: webhook.ValidatePath(gvk),
	}
}

// AddWebhooks plans webhooks of a kind. The group is checked unless it is nil; an empty version is the stored one, for
// conversion all others.
func (p *Project) AddWebhooks(kind string, group *string, version string, add Webhooks) (*Plan, error) {
	if add == (Webhooks{}) {
		return nil, errors.New("no webhook is asked for: add --defaulting, --validation or --conversion, or several")
	}
	versions, err := p.find(kind, group)
	if err != nil {
		return nil, err
	}
	plan := &Plan{root: p.root}
	if !plan.has("internal/webhook/setup.go") {
		p.addWebhookServer(plan)
	}
	if add.Defaulting || add.Validation {
		p.addAdmission(plan, versions, version, add)
	}
	if add.Conversion {
		p.addConversions(plan, versions, version)
	}
	p.save(plan)
	return plan.finish()
}

// find returns the versions of a kind, the stored one first.
func (p *Project) find(kind string, group *string) (versions []*Resource, err error) {
	var kinds []string
	for i := range p.Resources {
		r := &p.Resources[i]
		kinds = append(kinds, r.Kind)
		if r.Kind == kind && (group == nil || *group == r.Group) {
			versions = append(versions, r)
		}
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("--kind: the project has no kind %q in that group; there are %s; 'setpoint new api' adds one", kind, strings.Join(kinds, ", "))
	}
	return versions, nil
}

// addWebhookServer plans what all webhooks of a project share.
func (p *Project) addWebhookServer(plan *Plan) {
	plan.renderAll("webhooks", p)
	plan.edit("cmd/main.go", insert("options", "webhooks webhookOptions"))
	plan.edit("cmd/main.go", insert("flags", "o.webhooks.declare(f)"))
	plan.edit("cmd/main.go", insert("setup", "if err := o.webhooks.add(m, logger); err != nil {", "\treturn err", "}"))
	plan.edit("config/manager/deployment.yaml", insert("args", "- --webhook-bind-address=0.0.0.0:9443"))
	plan.edit("config/manager/deployment.yaml", insert("ports", "- name: webhooks", "  containerPort: 9443"))
	plan.edit("config/manager/deployment.yaml", insert("container",
		"lifecycle:", "  preStop:", "    sleep:", "      seconds: 5 # requests still come until the Service has heard"))
	plan.edit("config/kustomization.yaml", insert("resources", "- webhook/service.yaml", "- webhook/rbac.yaml"))
}

// addAdmission plans the webhooks that change and refuse objects of one version.
func (p *Project) addAdmission(plan *Plan, versions []*Resource, version string, add Webhooks) {
	r := versions[0]
	for _, v := range versions {
		if v.Version == version {
			r = v
		}
		if v.Webhooks.Defaulting && add.Defaulting || v.Webhooks.Validation && add.Validation {
			plan.fail(fmt.Errorf("%s has such a webhook already, for %s; API servers call it for all versions", v.Kind, v.Version))
		}
	}
	if version != "" && r.Version != version {
		plan.fail(fmt.Errorf("--version: %s has no version %q", r.Kind, version))
		return
	}
	d := p.webhookDataOf(*r)
	if add.Defaulting {
		r.Webhooks.Defaulting, d.Mutating = true, true
		addAdmissionFiles(plan, d, "defaulting", "webhook.MutatePath", "webhook.Mutate(default"+d.Kind+")")
	}
	if add.Validation {
		r.Webhooks.Validation, d.Mutating = true, false
		addAdmissionFiles(plan, d, "validation", "webhook.ValidatePath", "webhook.Validate(validate"+d.Kind+")")
	}
}

func addAdmissionFiles(plan *Plan, d webhookData, purpose, path, handler string) {
	addWebhookCode(plan, d, d.Singular+"_"+purpose, purpose)
	plan.edit("internal/webhook/setup.go", insert("imports", d.Alias+` "`+d.Path+`"`))
	plan.edit("internal/webhook/setup.go", insert("handlers", fmt.Sprintf("server.Handle(%s(%s.GroupVersion.WithKind(%q)), %s)", path, d.Alias, d.Kind, handler)))
	const manifests = "config/webhook/manifests.yaml"
	if !plan.has(manifests) {
		plan.make(manifests, nil)
		plan.edit("config/kustomization.yaml", insert("resources", "- webhook/manifests.yaml"))
	}
	plan.edit(manifests, addWebhook(render("webhook/configuration.yaml.tmpl", d)))
}

// addConversions plans the conversions between the stored version of a kind and others that have none yet.
func (p *Project) addConversions(plan *Plan, versions []*Resource, version string) {
	added := false
	for _, r := range versions[1:] {
		if version != "" && r.Version != version || r.Webhooks.Conversion {
			continue
		}
		added, r.Webhooks.Conversion = true, true
		addConversion(plan, p.webhookDataOf(*r))
	}
	if !added {
		plan.fail(fmt.Errorf("--conversion: %s has no version that could be converted to %s, which is stored, and is not yet; add a version with 'setpoint new api --kind %s --version …'",
			versions[0].Kind, versions[0].Version, versions[0].Kind))
	}
}

func addConversion(plan *Plan, d webhookData) {
	addWebhookCode(plan, d, d.Singular+"_"+d.Version+"_conversion", "conversion")
	crd := d.Plural + "." + d.FullGroup
	functions := d.Lower + d.Capital
	plan.edit("internal/webhook/setup.go", insert("converted", fmt.Sprintf("%q,", crd)))
	plan.edit("internal/webhook/setup.go", insert("conversions", fmt.Sprintf("webhook.Convert(%sToHub, %sFromHub),", functions, functions)))
	plan.edit("config/webhook/rbac.yaml", insert("rules",
		"- apiGroups: [apiextensions.k8s.io]", "  resources: [customresourcedefinitions]", "  resourceNames: ["+crd+"]", "  verbs: [get, update]"))
	patch := "crd/patches/conversion_in_" + d.FullGroup + "_" + d.Plural + ".yaml"
	if !plan.has("config/" + patch) {
		plan.make("config/"+patch, render("webhook/conversion_patch.yaml.tmpl", d))
		plan.edit("config/kustomization.yaml", insert("patches", "- path: "+patch))
	}
}

// addWebhookCode plans a webhook's function, its table and its scenario.
func addWebhookCode(plan *Plan, d webhookData, name, purpose string) {
	plan.make("internal/webhook/"+name+".go", render("webhook/"+purpose+".go.tmpl", d))
	plan.make("internal/webhook/"+name+"_test.go", render("webhook/"+purpose+"_test.go.tmpl", d))
	plan.make("test/"+name+"_test.go", render("webhook/"+purpose+"_scenario_test.go.tmpl", d))
}
