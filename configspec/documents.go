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
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/event"
	"github.com/setpoint-dev/setpoint/filter"
)

// What Options leave out.
const (
	defaultKey      = "spec.yaml"
	defaultMaxBytes = 256 << 10
)

// statusSuffix makes the name and the label's value of a status out of those of its document, and the
// annotation's key out of the label's.
const statusSuffix = "-status"

// Place is where the status of a document is kept.
type Place int

const (
	// Annotation keeps it as JSON in an annotation of the ConfigMap itself, whose key is that of the
	// label with "-status" at the end. It needs no right but patch.
	Annotation Place = iota
	// StatusConfigMap keeps it in a second ConfigMap of the name of the first with "-status" at the end,
	// which the first one controls: as YAML under "status.yaml", and the status of each condition under
	// its type, for `kubectl wait --for=jsonpath='{.data.Ready}'=True`. Who may change documents then
	// need not be able to change their status. It needs the right to create ConfigMaps.
	StatusConfigMap
)

// Options say which ConfigMaps hold documents of one kind, and what they must look like.
type Options[T any] struct {
	// Label is the key of the label of ConfigMaps with documents, such as "example.com/spec". Its value is
	// the name of the controller. Required.
	Label string
	// Key is the key in the ConfigMap's data under which the document is. Empty: "spec.yaml".
	Key string
	// MaxBytes is the greatest size of a document. Zero: 256 KiB. More than about 1 MiB the server does not
	// take.
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
	client  *client.Client
	events  *event.Recorder
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
	var errs []error
	add := func(what, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("%s %q: %s", what, value, problem))
		}
	}
	add("Label", o.Label, validation.IsQualifiedName(o.Label))
	if len(errs) == 0 {
		add("annotation for the status", o.Label+statusSuffix, validation.IsQualifiedName(o.Label+statusSuffix))
	}
	add("Key", o.Key, validation.IsConfigMapKey(o.Key))
	add("name, which is a label's value,", name+statusSuffix, validation.IsValidLabelValue(name+statusSuffix))
	if name == "" {
		errs = append(errs, errors.New("the name is empty"))
	}
	if o.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("MaxBytes %d is negative", o.MaxBytes))
	}
	if o.Status != Annotation && o.Status != StatusConfigMap {
		errs = append(errs, fmt.Errorf("Status %d is neither Annotation nor StatusConfigMap", o.Status))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configspec %q: %w", name, err)
	}
	return &Documents[T]{options: o, name: name, m: m, client: m.Client(), events: m.Events(name)}, nil
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

// annotation is the key of the annotation with the status.
func (d *Documents[T]) annotation() string { return d.options.Label + statusSuffix }

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
	_, present := c.New.Meta().Annotations[d.annotation()]
	if !present && d.options.Status == Annotation {
		return true // somebody removed it, or the document is new
	}
	old, errOld := c.Old.Object()
	now, errNow := c.New.Object()
	if errOld != nil || errNow != nil {
		return true // a reconcile says what is wrong with it
	}
	return !equality.Semantic.DeepEqual(d.withoutStatus(old.(*corev1.ConfigMap)), d.withoutStatus(now.(*corev1.ConfigMap)))
}

// withoutStatus returns a ConfigMap without what changes when its status is written. It shares memory with
// the original.
func (d *Documents[T]) withoutStatus(cm *corev1.ConfigMap) *corev1.ConfigMap {
	stripped := *cm
	stripped.ResourceVersion, stripped.ManagedFields = "", nil
	stripped.Annotations = maps.Clone(cm.Annotations)
	delete(stripped.Annotations, d.annotation())
	return &stripped
}
