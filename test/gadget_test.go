package test

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/webhook"
)

// This file is a kind with three versions and its webhooks, as a user would have them: see docs/webhooks.md.

// GadgetV1Alpha1 is the first version: it has no colour.
type GadgetV1Alpha1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Size              string `json:"size,omitempty"` // "2x3"
}

// GadgetV1Beta1 is the second version.
type GadgetV1Beta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size   string `json:"size,omitempty"`
		Colour string `json:"colour,omitempty"`
	} `json:"spec"`
}

// Gadget is the version that is stored, and the hub of the conversions.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GadgetSpec `json:"spec"`
}

// GadgetSpec is what a Gadget shall be.
type GadgetSpec struct {
	Width  int32  `json:"width,omitempty"`
	Height int32  `json:"height,omitempty"`
	Colour string `json:"colour,omitempty"`
}

// DeepCopyObject implements runtime.Object; a generator writes it for kinds with more in them.
func (g *GadgetV1Alpha1) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (g *GadgetV1Beta1) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (g *Gadget) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func gadgetScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for version, obj := range map[string]runtime.Object{"v1alpha1": &GadgetV1Alpha1{}, "v1beta1": &GadgetV1Beta1{}, "v1": &Gadget{}} {
		gv := schema.GroupVersion{Group: "example.com", Version: version}
		scheme.AddKnownTypeWithName(gv.WithKind("Gadget"), obj)
		metav1.AddToGroupVersion(scheme, gv)
	}
	return scheme
}

var gadgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}

// addGadgets serves the webhooks of Gadgets, each wrapped.
func addGadgets(s *webhook.Server, wrap func(http.Handler) http.Handler) error {
	converter, err := webhook.NewConverter(gadgetScheme(),
		webhook.Convert(alphaToHub, hubToAlpha), webhook.Convert(betaToHub, hubToBeta))
	if err != nil {
		return err
	}
	s.Handle(webhook.MutatePath(gadgetKind), wrap(webhook.Mutate(defaultGadget)))
	s.Handle(webhook.ValidatePath(gadgetKind), wrap(webhook.Validate(validateGadget)))
	s.Handle(webhook.ConvertPath, wrap(converter))
	return nil
}

func defaultGadget(_ context.Context, r webhook.Request[*Gadget]) error {
	if r.Object.Spec.Colour == "" {
		r.Object.Spec.Colour = "grey"
	}
	return nil
}

func validateGadget(_ context.Context, r webhook.Request[*Gadget]) (warnings []string, err error) {
	if r.Object == nil { // a deletion
		if r.Old.Labels["keep"] == "true" {
			return nil, fmt.Errorf("%s is to be kept: remove its label first", r.Old.Name)
		}
		return nil, nil
	}
	path := field.NewPath("spec")
	var errs field.ErrorList
	if r.Object.Spec.Width < 1 {
		errs = append(errs, field.Invalid(path.Child("width"), r.Object.Spec.Width, "must be positive"))
	}
	if r.Object.Spec.Height < 1 {
		errs = append(errs, field.Invalid(path.Child("height"), r.Object.Spec.Height, "must be positive"))
	}
	if r.Old != nil && r.Old.Spec.Colour != r.Object.Spec.Colour {
		warnings = append(warnings, "a gadget is painted when it is made: the new colour has no effect")
	}
	return warnings, errs.ToAggregate()
}

// colourAnnotation keeps the colour where a version has no field for it, so that nothing is lost on the way.
const colourAnnotation = "example.com/colour"

func alphaToHub(_ context.Context, from *GadgetV1Alpha1, to *Gadget) error {
	to.Spec.Colour = to.Annotations[colourAnnotation]
	delete(to.Annotations, colourAnnotation)
	return parseSize(from.Size, &to.Spec)
}

func hubToAlpha(_ context.Context, from *Gadget, to *GadgetV1Alpha1) error {
	to.Size = formatSize(from.Spec)
	if from.Spec.Colour != "" {
		metav1.SetMetaDataAnnotation(&to.ObjectMeta, colourAnnotation, from.Spec.Colour)
	}
	return nil
}

func betaToHub(_ context.Context, from *GadgetV1Beta1, to *Gadget) error {
	to.Spec.Colour = from.Spec.Colour
	return parseSize(from.Spec.Size, &to.Spec)
}

func hubToBeta(_ context.Context, from *Gadget, to *GadgetV1Beta1) error {
	to.Spec.Size, to.Spec.Colour = formatSize(from.Spec), from.Spec.Colour
	return nil
}

func parseSize(size string, spec *GadgetSpec) error {
	if n, err := fmt.Sscanf(size, "%dx%d", &spec.Width, &spec.Height); n != 2 {
		return fmt.Errorf("size %q is not WIDTHxHEIGHT: %w", size, err)
	}
	return nil
}

func formatSize(spec GadgetSpec) string { return fmt.Sprintf("%dx%d", spec.Width, spec.Height) }
