package cache

import (
	"log/slog"
	"math/rand/v2"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Config says which server a Cache follows and how it keeps each kind.
type Config struct {
	// REST reaches the API server. Required.
	REST *rest.Config

	// HTTP is the client to send requests with; it must have been made from REST. Nil makes one. Its Timeout is
	// not used: a watch is a request that lasts, and the cache bounds its requests itself.
	HTTP *http.Client

	// Scheme maps kinds to Go types. Nil is the scheme of the built-in kinds. A kind that it does not know can
	// be read as unstructured and as metadata.
	Scheme *runtime.Scheme

	// Mapper maps kinds to resources. Nil discovers them from the server. A mapper with a Reset method is reset
	// when it does not know a kind, so that custom resources may be installed while the cache runs.
	Mapper meta.RESTMapper

	// Logger gets what goes wrong with watches. Nil discards.
	Logger *slog.Logger

	// Metrics gets the cache's collectors. Nil registers none.
	Metrics prometheus.Registerer

	// Default holds the options of the kinds that Kinds does not name.
	Default Options

	// Kinds holds options per kind, replacing Default as a whole.
	Kinds map[schema.GroupKind]Options

	// FieldOwners names the field managers whose managedFields entries are kept although managedFields are
	// stripped; see [Entry.ManagedFields].
	FieldOwners []string

	// Rand is the source of the jitter in back-offs and watch timeouts; the cache guards it with a lock of its
	// own, so it must not be used elsewhere meanwhile. Nil seeds one.
	Rand *rand.Rand
}

// Options says which objects of a kind are kept, and in what form. The zero value keeps every object whole,
// without managedFields.
type Options struct {
	// Namespaces limits a namespaced kind to these namespaces, with one watch each. Empty means all namespaces,
	// in one watch. It is ignored for cluster-scoped kinds. [Cache.SetNamespaces] changes it at run time.
	Namespaces []string

	// NamespaceSelector limits a namespaced kind to the namespaces whose labels match, as they come, go and
	// change their labels, as [Cache.SetNamespaces] does. It watches namespaces, as far as the options of that
	// kind show them. Nil does not limit; with it, Namespaces must be empty. It is ignored for the kind
	// Namespace.
	NamespaceSelector labels.Selector

	// Labels and Fields limit the kind to what the server selects by them. Nil selects everything.
	Labels labels.Selector
	Fields fields.Selector

	// MetadataOnly fetches and keeps nothing but metadata. Such a kind can be read only into
	// *metav1.PartialObjectMetadata.
	MetadataOnly bool

	// KeepManagedFields keeps the managedFields of all managers in the object.
	KeepManagedFields bool

	// Compress keeps objects compressed, with a dictionary made of the first ones of the kind (about a megabyte
	// per kind, until the kind's watch stops). Pods then take a fifth to a half of the memory, and a read
	// takes up to twice as long. It pays for kinds with thousands of objects that are seldom read; for
	// less than some hundred objects it does nothing.
	Compress bool

	// Transform changes each object before it is kept, for example to drop what is never read. It is given a
	// private object (typed if the scheme knows the kind, else unstructured) and must not change its name,
	// namespace, UID or resourceVersion. An error keeps the object as it was and is logged. It makes every
	// object be decoded and encoded once more as it arrives, and every Apply and Update of the kind be sent: what
	// the cache holds does not tell whether it changes something. [Keep] makes one that keeps only named fields.
	Transform func(runtime.Object) error
}
