package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/scaffold"
)

// A project begins with the versions of the modules that this command is made of.
var (
	//go:embed go.mod
	goMod []byte
	//go:embed go.sum
	goSum []byte
)

// newOptions are the flags of `setpoint new`.
type newOptions struct {
	project  scaffold.Project
	resource scaffold.Resource
	source   string // of Setpoint
	dryRun   bool
}

func newNew(s streams) *cobra.Command {
	var o newOptions
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make an operator project in the present folder; add kinds and webhooks to it",
		Long: "new makes an operator project in the present folder, which must be empty: a Go module with a first kind, its\n" +
			"controller, tests on a control plane, CustomResourceDefinition, rights, manifests and a Makefile. It compiles and\n" +
			"passes its tests as it is.\n\n" +
			"What is not given follows from the folder's name.",
		Example: "  setpoint new\n" +
			"  setpoint new --domain example.com --repo github.com/me/shop --group shop --version v1alpha1 --kind Shop\n" +
			"  setpoint new api --kind Till\n" +
			"  setpoint new webhook --kind Shop --defaulting --validation",
		SuggestFor: []string{"init", "create", "scaffold"},
		Args:       noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd); err != nil {
				return err
			}
			_, file, _, _ := runtime.Caller(0)
			source, err := setpointSource(o.source, ownVersion(), file)
			if err != nil {
				return err
			}
			plan, err := scaffold.New(".", o.project, o.resource, source)
			if err != nil {
				return err
			}
			var next []string
			if source.Version != "" {
				next = append(next, "go mod tidy")
			}
			return carryOut(plan, o.dryRun, s.out, append(next, "make test", "make up", "make run    (in another terminal)"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.project.Domain, "domain", "example.com", "`name` that the groups of the kinds end with")
	f.StringVar(&o.project.Repo, "repo", "", "`path` of the Go module (default: <domain>/<project-name>)")
	f.StringVar(&o.project.Name, "project-name", "", "`name` of the program and its namespace (default: the folder's)")
	f.StringVar(&o.source, "setpoint-dir", "", "`folder` with Setpoint's sources that go.mod refers to (default: the release of this command, or the sources that it was built from)")
	resourceFlags(cmd, &o.resource, "project's name")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.AddCommand(newNewAPI(s), newNewWebhook(s))
	return cmd
}

// resourceFlags declares the flags that say what a kind is called.
func resourceFlags(cmd *cobra.Command, r *scaffold.Resource, group string) {
	f := cmd.Flags()
	f.StringVar(&r.Group, "group", "", "`group` of the kind, without the domain (default: the "+group+")")
	f.StringVar(&r.Version, "version", "", "`version` of the kind")
	f.StringVar(&r.Kind, "kind", "", "`name` of the kind, such as Website")
	f.StringVar(&r.Plural, "plural", "", "`name` of the kind's resource (default: the plural of the kind, as English mostly has it)")
	f.BoolVar(&r.Namespaced, "namespaced", true, "whether objects are in namespaces")
}

// complete fills in what follows from the folder's name.
func (o *newOptions) complete(cmd *cobra.Command) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if o.project.Name == "" {
		o.project.Name = scaffold.NameOf(filepath.Base(dir))
	}
	if o.project.Repo == "" {
		o.project.Repo = o.project.Domain + "/" + o.project.Name
	}
	if !cmd.Flags().Changed("group") {
		o.resource.Group = o.project.Name
	}
	if o.resource.Version == "" {
		o.resource.Version = "v1alpha1"
	}
	if o.resource.Kind == "" {
		o.resource.Kind = scaffold.KindOf(o.project.Name)
	}
	return nil
}

func newNewAPI(s streams) *cobra.Command {
	var r scaffold.Resource
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Add a kind to the project, or another version of one",
		Long: "api adds a kind to the project that the present folder is in: types, CustomResourceDefinition, controller, tests,\n" +
			"rights and a sample. With a kind that is there and a new --version, it adds that version of it; the one that was\n" +
			"there first is stored.",
		Example:    "  setpoint new api --kind Till\n  setpoint new api --group billing --version v1 --kind Invoice --namespaced=false",
		SuggestFor: []string{"kind", "resource"},
		Args:       noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Kind == "" {
				return misuse{errors.New("--kind is missing")}
			}
			project, err := scaffold.Open(".")
			if err != nil {
				return err
			}
			first := project.Resources[0]
			if !cmd.Flags().Changed("group") {
				r.Group = first.Group
			}
			if r.Version == "" {
				r.Version = first.Version
			}
			plan, err := project.AddKind(r)
			if err != nil {
				return err
			}
			return carryOut(plan, dryRun, s.out, []string{"make test"})
		},
	}
	resourceFlags(cmd, &r, "group of the project's first kind")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	return cmd
}

func newNewWebhook(s streams) *cobra.Command {
	var kind, group, version string
	var add scaffold.Webhooks
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Add webhooks to a kind of the project",
		Long: "webhook adds webhooks to a kind of the project that the present folder is in: functions, tables, scenarios on a\n" +
			"control plane, configurations and rights; the first one adds the server, too.",
		Example: "  setpoint new webhook --kind Shop --defaulting --validation\n" +
			"  setpoint new api --kind Shop --version v1 && setpoint new webhook --kind Shop --conversion",
		SuggestFor: []string{"webhooks"},
		Args:       noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind == "" {
				return misuse{errors.New("--kind is missing")}
			}
			project, err := scaffold.Open(".")
			if err != nil {
				return err
			}
			var inGroup *string
			if cmd.Flags().Changed("group") {
				inGroup = &group
			}
			plan, err := project.AddWebhooks(kind, inGroup, version, add)
			if err != nil {
				return err
			}
			return carryOut(plan, dryRun, s.out, []string{"make test"})
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "", "`name` of the kind")
	f.StringVar(&group, "group", "", "`group` of the kind, without the domain")
	f.StringVar(&version, "version", "", "`version` of the kind (default: the one that is stored; for --conversion all others)")
	f.BoolVar(&add.Defaulting, "defaulting", false, "a webhook that changes objects before they are stored")
	f.BoolVar(&add.Validation, "validation", false, "a webhook that refuses objects")
	f.BoolVar(&add.Conversion, "conversion", false, "one that makes objects of one version of those of another")
	f.BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "programmatic-validation" { // kubebuilder's name of it
			name = "validation"
		}
		return pflag.NormalizedName(name)
	})
	return cmd
}

// carryOut does what a plan says, unless dry, and tells what was done and what to type next.
func carryOut(plan *scaffold.Plan, dry bool, out io.Writer, next []string) error {
	made, changed := "made", "changed"
	if dry {
		made, changed = "would make", "would change"
	} else if err := plan.Apply(); err != nil {
		return err
	}
	for _, path := range plan.Made() {
		fmt.Fprintf(out, "%s %s\n", made, path)
	}
	for _, path := range plan.Changed() {
		fmt.Fprintf(out, "%s %s\n", changed, path)
	}
	if dry {
		return nil
	}
	fmt.Fprint(out, "\nNext:\n\n")
	for _, line := range next {
		fmt.Fprintf(out, "  %s\n", line)
	}
	if program, err := os.Executable(); err == nil {
		if found, err := exec.LookPath("setpoint"); err != nil || !sameFile(found, program) {
			fmt.Fprintf(out, "\nmake calls 'setpoint', which is not this program as your PATH stands: export SETPOINT=%s\n", quote(program))
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// released is what versions of releases look like, and no others: not those between two releases.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

// setpointSource says where a project gets Setpoint from: the folder that was named, else this command's release, else
// the sources that it was built from, of which file is this one.
func setpointSource(dir, version, file string) (scaffold.Setpoint, error) {
	from := scaffold.Setpoint{GoMod: goMod, GoSum: goSum, Dir: dir}
	switch {
	case dir != "":
	case released.MatchString(version):
		from.Version = version
	case !filepath.IsAbs(file):
		return from, errors.New("this program is no release and does not know the sources that it was built from: name a clone of Setpoint's repository with --setpoint-dir")
	default:
		from.Dir = strings.TrimSuffix(filepath.ToSlash(filepath.Dir(file)), "/cmd/setpoint")
	}
	return from, nil
}
