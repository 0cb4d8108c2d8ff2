package configspec

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/filter"
)

// What Options leave out.
const (
	defaultKey      = "spec.yaml"
	defaultMaxBytes = 64 << 10
)

// The greatest documents, in bytes, of which a copy can be kept in an annotation and in a ConfigMap: the server
// takes 256 KiB of annotations, of which kubectl apply needs as many as a document has, and 1 MiB of data.
const (
	maxAnnotation = 64 << 10
	maxConfigMap  = 768 << 10
)

// The suffixes make the keys of annotations out of the label's. The first one makes the name and the label's
// value of a second ConfigMap out of those of the first, too.
const (
	statusSuffix  = "-status"
	appliedSuffix = "-applied"
)

// Place is where the status of a document is kept, and a copy of the last valid document.
type Place int

const (
	// Annotation keeps them in annotations of the ConfigMap itself: the status as JSON under the key of the
	// label with "-status" at the end, the document under that with "-applied". It needs no right but patch.
	Annotation Place = iota
	// StatusConfigMap keeps them in a second ConfigMap of the name of the first with "-status" at the end,
	// which the first one controls: the status as YAML under "status.yaml", the document under its own key,
	// and the status of each condition under its type ("/" as "."), so that
	// kubectl wait --for=jsonpath='{.data.Ready}'=True works. Who may change documents then need not be able
	// to change their status. It needs the right to create ConfigMaps.
	StatusConfigMap
)

// Options say which ConfigMaps hold documents of one kind, and what they must look like.
type Options[T any] struct {
	// Label is the key of the label of ConfigMaps with documents, such as "example.com/spec". Its value is
	// the name of the controller. Required.
	Label string
	// Key is the key in the ConfigMap's data under which the document is. Empty: "spec.yaml".
	Key string
	// MaxBytes is the greatest size of a document. Zero: 64 KiB, which is all that there is room for in
	// annotations; with StatusConfigMap it may be up to 768 KiB.
	MaxBytes int
	// Status says where the status is kept. Zero: Annotation.
	Status Place
	// Default completes a decoded document, before it is validated. Nil: nothing to complete. For a type with
	// a method Default() it is (*T).Default.
	Default func(*T)
	// Validate says what is wrong with a document, or returns nil; a field.ErrorList becomes an error by
	// ToAggregate. It must go by the document alone. Nil: all are valid that can be decoded.
	Validate func(*T) error
}

// Documents are the documents of one kind, which one controller reconciles.
type Documents[T any] struct {
	options Options[T]
	name    string
	m       *setpoint.Manager
}

// New describes documents of type T, those in ConfigMaps whose label has the name as its value. The name
// is the controller's, too. T is a struct with JSON tags. The error is about the name and the options, all
// at once.
func New[T any](m *setpoint.Manager, name string, o Options[T]) (*Documents[T], error) {
	if o.Key == "" {
		o.Key = defaultKey
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if err := errors.Join(o.check(name)...); err != nil {
		return nil, fmt.Errorf("configspec %q: %w", name, err)
	}
	m.Events(name) // so that Manager.Roles knows of them from the start
	return &Documents[T]{options: o, name: name, m: m}, nil
}

// check returns all that is wrong with the options, of which none is missing, and with the controller's name.
func (o Options[T]) check(name string) []error {
	var errs []error
	add := func(what, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("invalid %s %q: %s", what, value, problem))
		}
	}
	add("Label", o.Label, validation.IsQualifiedName(o.Label))
	if len(errs) == 0 {
		add("annotation", o.Label+appliedSuffix, validation.IsQualifiedName(o.Label+appliedSuffix))
	}
	add("Key", o.Key, validation.IsConfigMapKey(o.Key))
	add("name, as a label's value,", name+statusSuffix, validation.IsValidLabelValue(name+statusSuffix))
	if name == "" {
		errs = append(errs, errors.New("the name is empty"))
	}
	most := maxAnnotation
	switch o.Status {
	case Annotation:
	case StatusConfigMap:
		most = maxConfigMap
		if o.Key == secondStatusKey {
			errs = append(errs, fmt.Errorf("invalid Key %q: the status is kept under that one", o.Key))
		}
	default:
		errs = append(errs, fmt.Errorf("invalid Status %d: choose Annotation or StatusConfigMap", o.Status))
	}
	if o.MaxBytes < 0 || o.MaxBytes > most {
		errs = append(errs, fmt.Errorf("invalid MaxBytes %d: there is room for documents of 1 to %d bytes", o.MaxBytes, most))
	}
	return errs
}

// Cache returns the options of the cache for ConfigMaps that keep those with the label and no others, in
// these namespaces; without any, in all. It belongs into Config.Kinds of the manager, under the GroupKind
// {Kind: "ConfigMap"}. It panics when the label is not the key of one.
func Cache(label string, namespaces ...string) cache.Options {
	exists, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("configspec.Cache: label %q: %v", label, err))
	}
	return cache.Options{Namespaces: namespaces, Labels: labels.NewSelector().Add(*exists)}
}

// For begins the controller of the documents. Its reconciler is what [Documents.Each] returns.
func (d *Documents[T]) For() *setpoint.Builder[*corev1.ConfigMap] {
	b := setpoint.For[*corev1.ConfigMap](d.m, d.name).When(d.changed)
	if d.options.Status == StatusConfigMap {
		// Deletions, which no filter stops, are all that matters here.
		b = b.Owns(&corev1.ConfigMap{}, func(filter.Change) bool { return false })
	}
	return b
}

// holds reports whether a ConfigMap with these labels holds a document.
func (d *Documents[T]) holds(labels map[string]string) bool {
	return labels[d.options.Label] == d.name
}

// changed passes the changes of documents, and of what else users write into their ConfigMaps: all but the
// writing of the status.
func (d *Documents[T]) changed(c filter.Change) bool {
	if !d.holds(c.New.Meta().Labels) {
		return false
	}
	if c.Old == nil {
		return true
	}
	old, errOld := c.Old.Object()
	now, errNow := c.New.Object()
	if errOld != nil || errNow != nil {
		return true // a reconcile says what is wrong with it
	}
	before, after := old.(*corev1.ConfigMap), now.(*corev1.ConfigMap)
	removed := func(key string) bool {
		_, had := before.Annotations[key]
		_, has := after.Annotations[key]
		return had && !has
	}
	return removed(d.statusKey()) || removed(d.appliedKey()) ||
		!equality.Semantic.DeepEqual(d.withoutStatus(before), d.withoutStatus(after))
}

// withoutStatus returns a ConfigMap without what changes when its status is written. It shares memory with
// the original.
func (d *Documents[T]) withoutStatus(cm *corev1.ConfigMap) *corev1.ConfigMap {
	stripped := *cm
	stripped.ResourceVersion, stripped.ManagedFields = "", nil
	stripped.Annotations = maps.Clone(cm.Annotations)
	delete(stripped.Annotations, d.statusKey())
	delete(stripped.Annotations, d.appliedKey())
	return &stripped
}
