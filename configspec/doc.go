// Package configspec runs controllers whose desired state is a document in a ConfigMap, for clusters
// in which CustomResourceDefinitions may not be installed. A namespaced Role is all that such a
// controller needs.
//
// A ConfigMap with the label of the controller is to it what an object of a custom kind is to others:
//
//	apiVersion: v1
//	kind: ConfigMap
//	metadata:
//	  name: blog
//	  labels:
//	    example.com/spec: website
//	data:
//	  spec.yaml: |
//	    host: blog.example.com
//	    replicas: 2
//
//	websites, err := configspec.New(m, "website", configspec.Options[Website]{Label: "example.com/spec"})
//	…
//	websites.For().
//		Owns(&appsv1.Deployment{}).
//		Reconcile(websites.Each(func(ctx context.Context, site *configspec.Object[Website]) (setpoint.Result, error) {
//			… site.Spec.Replicas …
//		}))
//
// [Documents.For] returns the builder of an ordinary controller of ConfigMaps: everything that it can
// do holds here, too, such as working in several clusters. [Documents.Each] turns a reconciler of
// documents into one of ConfigMaps.
//
// # What a CustomResourceDefinition does elsewhere
//
//   - Schema: a document is decoded strictly into the Go type. Unknown and duplicate fields are
//     mistakes, reported with their paths, and so are empty documents and several in one key.
//   - Defaults and validation: Options.Default and Options.Validate.
//   - metadata.generation: [Hash] of the document. Status.Observed is that of the document which the
//     controller looked at last, Status.Applied that of the last valid one, which is what runs.
//   - The status subresource: annotations, or a second ConfigMap, see [Place]. Both are written by
//     server-side apply under a field owner of their own, never with the document.
//   - Admission is the one thing that is missing: a document that is not valid gets into the cluster.
//     So a copy of the last valid one is kept beside the status.
//
// # Laws
//
//   - A document that is not valid changes nothing that runs. The condition Valid, an Event and the log
//     say what is wrong with it, and the reconciler is called with the last valid document instead:
//     drift is mended, the status kept up to date, finalizers run. Without one it is not called, but for
//     deletions.
//   - A document is kept before it is reconciled for the first time: no crash makes a controller fall
//     back to the one before.
//   - Nobody but the user writes the document, the labels and other annotations.
//   - The status is written only when it differs from the one there, and its writing wakes nobody.
//     A status that somebody removed is written again at once, one that somebody altered after the
//     next reconcile.
//   - A ConfigMap that loses the label is left alone, with all that belongs to it: its children go
//     when it is deleted. Remove the label only from a ConfigMap without finalizers of the controller.
//   - No status is written once a ConfigMap that is being deleted has no finalizers left, and no
//     second ConfigMap is created for one that is being deleted.
//   - Everything is bounded: a document by Options.MaxBytes, messages and the status by 4 and 64 KiB.
//
// # Memory and rights
//
// A controller should not keep all ConfigMaps of a cluster in memory to look at a few. [Cache] makes
// the options that limit the cache to those with the label, in the namespaces that the program may
// read. Every program has one label for all its kinds of documents, which are told apart by its value.
// ConfigMaps without the label are then not in the cache, and reads of them find nothing: read them
// with client.Live. Those that a controller creates and wants to own need the label with a value that
// no controller has.
package configspec
