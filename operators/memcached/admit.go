package memcached

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/setpoint-dev/setpoint/operators/memcached/v1"
	"github.com/setpoint-dev/setpoint/webhook"
)

// The limits of the schema, which stand in v1/types.go, too.
const (
	maxSize = 100
	maxName = 52
	maxArgs = 64
	maxArg  = 256
)

var (
	nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	// reserved are arguments that a user must not pass.
	reserved = regexp.MustCompile(`^(-[pmdsl]|--(port|memory-limit|daemon|unix-socket|listen)(=|$))`)
)

// setDefaults is the mutating webhook: users see in the object what they get.
func setDefaults(_ context.Context, r webhook.Request[*v1.Memcached]) error {
	r.Object.Spec = complete(r.Object.Spec)
	return nil
}

// validate is the validating webhook.
func validate(_ context.Context, r webhook.Request[*v1.Memcached]) (warnings []string, err error) {
	if r.Object == nil || r.Object.DeletionTimestamp != nil {
		return nil, nil // nothing may keep a Memcached from going
	}
	if r.Old != nil && equality.Semantic.DeepEqual(r.Old.Spec, r.Object.Spec) {
		return nil, nil // what was let in before may be labelled, and given its finalizer
	}
	errs := append(validateName(r.Object.Name), validateSpec(complete(r.Object.Spec))...)
	return warningsAbout(r.Object, r.Old), errs.ToAggregate()
}

func validateName(name string) field.ErrorList {
	if len(name) <= maxName && nameForm.MatchString(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf("it is part of the nodes' host names: "+
		"at most %d lower case letters, digits and dashes that begin with a letter and do not end with a dash", maxName))}
}

// validateSpec returns all that is wrong with a complete spec.
func validateSpec(spec v1.MemcachedSpec) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	inRange := func(name string, value, least, most int32) {
		if value < least || value > most {
			errs = append(errs, field.Invalid(path.Child(name), value, fmt.Sprintf("must be between %d and %d", least, most)))
		}
	}
	inRange("size", *spec.Size, 0, maxSize)
	inRange("containerPort", spec.ContainerPort, 1, 65535)
	inRange("memoryLimitMB", *spec.MemoryLimitMB, minMemory, maxMemory)
	if strings.ContainsAny(spec.Image, " \t\r\n") {
		errs = append(errs, field.Invalid(path.Child("image"), spec.Image, "must be one word"))
	}
	limit, limited := spec.Resources.Limits[corev1.ResourceMemory]
	if items := inMebibytes(*spec.MemoryLimitMB); limited && limit.Cmp(items) <= 0 {
		errs = append(errs, field.Invalid(path.Child("memoryLimitMB"), *spec.MemoryLimitMB, fmt.Sprintf(
			"must be less than resources.limits.memory, which is %s: nodes would be killed when they fill up", limit.String())))
	}
	if len(spec.Resources.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "claims"), "claims are not supported"))
	}
	return append(errs, validateArgs(path.Child("extraArgs"), spec.ExtraArgs)...)
}

func validateArgs(path *field.Path, args []string) field.ErrorList {
	var errs field.ErrorList
	if len(args) > maxArgs {
		errs = append(errs, field.TooMany(path, len(args), maxArgs))
	}
	for i, arg := range args {
		switch {
		case arg == "":
			errs = append(errs, field.Required(path.Index(i), "an argument is not empty"))
		case len(arg) > maxArg:
			errs = append(errs, field.TooLong(path.Index(i), arg, maxArg))
		case reserved.MatchString(arg):
			errs = append(errs, field.Invalid(path.Index(i), arg, "-p and -m have fields of their own; with -d, -s and -l a node would not serve"))
		}
	}
	return errs
}

// warningsAbout says what is allowed and may surprise. Old is nil for a new Memcached.
func warningsAbout(mc, old *v1.Memcached) []string {
	var warnings []string
	spec := complete(mc.Spec)
	if image := spec.Image; !strings.Contains(image, "@") {
		if _, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":"); tag == "" || tag == "latest" {
			warnings = append(warnings, fmt.Sprintf("spec.image: %q means another image from time to time, so that nodes may come to differ: name a version", image))
		}
	}
	if old == nil {
		return warnings
	}
	was := complete(old.Spec)
	if *spec.Size == *was.Size && (spec.ContainerPort != was.ContainerPort || !slices.Equal(arguments(spec), arguments(was)) || spec.Image != was.Image) {
		warnings = append(warnings, "the nodes are replaced one after the other, and each begins with an empty cache")
	}
	return warnings
}
