package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxNamed is how many objects of a batch an error names.
const maxNamed = 10

// conversionReview is apiextensions.k8s.io/v1, ConversionReview.
type conversionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *conversionRequest  `json:"request,omitempty"`
	Response        *conversionResponse `json:"response,omitempty"`
}

type conversionRequest struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type conversionResponse struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

// Conversion is how the objects of one version become those of the hub, and
// back; see Convert.
type Conversion struct {
	spoke, hub func(*runtime.Scheme) (schema.GroupVersionKind, error)
	conv       converter
}

// converter decodes, converts and encodes the objects of a version.
type converter struct {
	newHub   func() runtime.Object
	newSpoke func() runtime.Object
	toHub    func(ctx context.Context, spoke, hub runtime.Object) error
	fromHub  func(ctx context.Context, hub, spoke runtime.Object) error
}

// Convert says how objects of the type S become objects of H, the version of
// the kind that all others are converted by, and back. The second argument of
// each function has the metadata of the first already; of changes to it only
// those to labels and annotations count, which is where a version can keep what
// it has no fields for. fn's context has the request's deadline and a logger.
func Convert[S, H runtime.Object](toHub func(ctx context.Context, from S, to H) error, fromHub func(ctx context.Context, from H, to S) error) Conversion {
	mustBePointer[S]()
	mustBePointer[H]()
	return Conversion{
		spoke: kindOf[S], hub: kindOf[H],
		conv: converter{
			newSpoke: func() runtime.Object { return newObject[S]() },
			newHub:   func() runtime.Object { return newObject[H]() },
			toHub: func(ctx context.Context, spoke, hub runtime.Object) error {
				return toHub(ctx, spoke.(S), hub.(H))
			},
			fromHub: func(ctx context.Context, hub, spoke runtime.Object) error {
				return fromHub(ctx, hub.(H), spoke.(S))
			},
		},
	}
}

// kindOf returns the kind that a Go type is registered as.
func kindOf[T runtime.Object](scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	kinds, _, err := scheme.ObjectKinds(newObject[T]())
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if len(kinds) != 1 {
		return schema.GroupVersionKind{}, fmt.Errorf("%T is registered as %v: want one kind", newObject[T](), kinds)
	}
	return kinds[0], nil
}

// kindConversions are the versions of one kind.
type kindConversions struct {
	hub    string // its version
	newHub func() runtime.Object
	spokes map[string]converter // by version
}

// conversions serves the conversions of any number of kinds.
type conversions struct {
	kinds map[schema.GroupKind]*kindConversions
}

// NewConverter returns the handler of the conversions of any number of kinds,
// best served at ConvertPath. Scheme knows all their types. All that is wrong is
// in the one error.
func NewConverter(scheme *runtime.Scheme, all ...Conversion) (http.Handler, error) {
	c := &conversions{kinds: map[schema.GroupKind]*kindConversions{}}
	var errs []error
	for _, one := range all {
		if err := c.add(scheme, one); err != nil {
			errs = append(errs, fmt.Errorf("conversion: %w", err))
		}
	}
	if len(all) == 0 {
		errs = append(errs, errors.New("conversion: no versions to convert between"))
	}
	return review{limit: maxConversionBody, answer: c.answer}, errors.Join(errs...)
}

func (c *conversions) add(scheme *runtime.Scheme, one Conversion) error {
	spoke, errSpoke := one.spoke(scheme)
	hub, errHub := one.hub(scheme)
	if err := errors.Join(errSpoke, errHub); err != nil {
		return err
	}
	if spoke.GroupKind() != hub.GroupKind() || spoke.Version == hub.Version {
		return fmt.Errorf("from %v to %v: want two versions of one kind", spoke, hub)
	}
	kind := c.kinds[hub.GroupKind()]
	if kind == nil {
		kind = &kindConversions{hub: hub.Version, newHub: one.conv.newHub, spokes: map[string]converter{}}
		c.kinds[hub.GroupKind()] = kind
	}
	if _, twice := kind.spokes[spoke.Version]; twice {
		return fmt.Errorf("%v is converted twice", spoke)
	}
	if kind.hub != hub.Version {
		return fmt.Errorf("%v has two hubs: %s and %s", hub.GroupKind(), kind.hub, hub.Version)
	}
	kind.spokes[spoke.Version] = one.conv
	return nil
}

// answer answers a ConversionReview.
func (c *conversions) answer(ctx context.Context, body []byte) (any, error) {
	var in conversionReview
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, failf(http.StatusBadRequest, "decode the ConversionReview: %w", err)
	}
	if in.APIVersion != "apiextensions.k8s.io/v1" || in.Kind != "ConversionReview" {
		return nil, failf(http.StatusBadRequest,
			"got %s %q, want a ConversionReview of apiextensions.k8s.io/v1: set conversionReviewVersions to [v1]", in.APIVersion, in.Kind)
	}
	if in.Request == nil {
		return nil, failf(http.StatusBadRequest, "the ConversionReview has no request")
	}
	response := &conversionResponse{UID: in.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	converted, err := c.batch(ctx, in.Request)
	switch {
	case err != nil && outOfTime(ctx, err):
		return nil, err
	case err != nil:
		response.ConvertedObjects = []json.RawMessage{}
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
		logger(ctx).Warn("conversion failed", "to", in.Request.DesiredAPIVersion, "uid", in.Request.UID, "error", err)
	default:
		response.ConvertedObjects = converted
	}
	return conversionReview{TypeMeta: in.TypeMeta, Response: response}, nil
}

// batch converts all objects of a request.
func (c *conversions) batch(ctx context.Context, request *conversionRequest) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(request.Objects))
	var errs []error
	failed := 0
	for i, raw := range request.Objects {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var err error
		if out[i], err = c.convert(ctx, raw, request.DesiredAPIVersion); err == nil {
			continue
		}
		if failed++; failed <= maxNamed {
			errs = append(errs, err)
		}
	}
	if failed > maxNamed {
		errs = append(errs, fmt.Errorf("and %d more of %d objects", failed-maxNamed, len(request.Objects)))
	}
	return out, errors.Join(errs...)
}

// convert converts one object. Its error names the object.
func (c *conversions) convert(ctx context.Context, raw json.RawMessage, apiVersion string) (json.RawMessage, error) {
	var meta metav1.PartialObjectMetadata
	if err := utiljson.Unmarshal(raw, &meta); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	from := meta.GroupVersionKind()
	fail := func(err error) error {
		return fmt.Errorf("convert %s %s from %s to %s: %w", from.Kind, objectName(meta.Namespace, meta.Name), meta.APIVersion, apiVersion, err)
	}
	to, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, fail(err)
	}
	if from.GroupVersion() == to {
		return raw, nil
	}
	kind := c.kinds[from.GroupKind()]
	if kind == nil || to.Group != from.Group {
		return nil, fail(errors.New("no conversion is registered for the kind"))
	}
	obj, err := kind.convert(ctx, raw, from.Version, to.Version)
	if err != nil {
		return nil, fail(err)
	}
	out, err := seal(raw, obj, to.WithKind(from.Kind))
	if err != nil {
		return nil, fail(err)
	}
	return out, nil
}

// convert converts an object between two different versions, by the hub.
func (k *kindConversions) convert(ctx context.Context, raw []byte, from, to string) (runtime.Object, error) {
	var hub runtime.Object
	if from == k.hub {
		hub = k.newHub()
		if err := utiljson.Unmarshal(raw, hub); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
	} else {
		spoke, ok := k.spokes[from]
		if !ok {
			return nil, fmt.Errorf("no conversion is registered for version %s", from)
		}
		source := spoke.newSpoke()
		if err := utiljson.Unmarshal(raw, source); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		hub = spoke.newHub()
		if err := copyMetadata(source, hub); err != nil {
			return nil, err
		}
		if err := spoke.toHub(ctx, source, hub); err != nil {
			return nil, err
		}
	}
	if to == k.hub {
		return hub, nil
	}
	spoke, ok := k.spokes[to]
	if !ok {
		return nil, fmt.Errorf("no conversion is registered for version %s", to)
	}
	target := spoke.newSpoke()
	if err := copyMetadata(hub, target); err != nil {
		return nil, err
	}
	return target, spoke.fromHub(ctx, hub, target)
}

// copyMetadata gives to the metadata of from.
func copyMetadata(from, to runtime.Object) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var only struct {
		Metadata json.RawMessage `json:"metadata,omitempty"`
	}
	if err := json.Unmarshal(data, &only); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if data, err = json.Marshal(only); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return utiljson.Unmarshal(data, to)
}

// seal encodes a converted object with its kind and with the metadata that it had
// before, but for labels and annotations.
func seal(raw []byte, obj runtime.Object, gvk schema.GroupVersionKind) (json.RawMessage, error) {
	after, err := tree(obj)
	if err != nil {
		return nil, err
	}
	before, err := parse(raw)
	if err != nil {
		return nil, err
	}
	content := after.(map[string]any)
	content["apiVersion"], content["kind"] = gvk.GroupVersion().String(), gvk.Kind
	was, _ := before.(map[string]any)["metadata"].(map[string]any)
	if was == nil {
		was = map[string]any{}
	}
	is, _ := content["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations"} {
		if value, ok := is[field]; ok {
			was[field] = value
		} else {
			delete(was, field)
		}
	}
	content["metadata"] = was
	return json.Marshal(content)
}
