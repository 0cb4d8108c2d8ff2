package client

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Each verb takes its own kind of option, and an option says by its methods to which verbs it can
// be passed: what makes no sense does not compile. The interfaces are sealed.

// GetOption is an option of Get.
type GetOption interface{ toGet(*getOptions) }

// ListOption is an option of List.
type ListOption interface{ toList(*listOptions) }

// CreateOption is an option of Create, also of a subresource.
type CreateOption interface{ toCreate(*writeOptions) }

// UpdateOption is an option of Update, also of a subresource.
type UpdateOption interface{ toUpdate(*writeOptions) }

// PatchOption is an option of Patch, also of a subresource.
type PatchOption interface{ toPatch(*writeOptions) }

// ApplyOption is an option of Apply, also of a subresource.
type ApplyOption interface{ toApply(*writeOptions) }

// DeleteOption is an option of Delete.
type DeleteOption interface{ toDelete(*deleteOptions) }

// DeleteAllOfOption is an option of DeleteAllOf.
type DeleteAllOfOption interface{ toDeleteAllOf(*deleteAllOfOptions) }

type getOptions struct {
	live  bool
	stale bool
}

type listOptions struct {
	getOptions
	namespace string
	labels    []labels.Selector
	fields    []fields.Selector
	limit     int64
	token     string
}

type writeOptions struct {
	owner       string
	force       bool
	dryRun      bool
	ifUnchanged bool
	body        Object
}

type deleteOptions struct {
	metav1.DeleteOptions
	ifUnchanged bool
}

type deleteAllOfOptions struct {
	deleteOptions
	list listOptions
}

type liveOption bool

// Live makes a read go to the server although the kind is cached.
const Live liveOption = true

func (l liveOption) toGet(o *getOptions)   { o.live = bool(l) }
func (l liveOption) toList(o *listOptions) { o.live = bool(l) }

type staleOption bool

// AllowStale makes a cached read answer at once with what the cache has, without waiting for the
// caller's own writes to arrive there.
const AllowStale staleOption = true

func (s staleOption) toGet(o *getOptions)   { o.stale = bool(s) }
func (s staleOption) toList(o *listOptions) { o.stale = bool(s) }

// InNamespace limits to one namespace. Empty means all of them.
type InNamespace string

func (n InNamespace) toList(o *listOptions)               { o.namespace = string(n) }
func (n InNamespace) toDeleteAllOf(o *deleteAllOfOptions) { n.toList(&o.list) }

// MatchingLabels selects objects that carry all these labels.
type MatchingLabels map[string]string

func (m MatchingLabels) toList(o *listOptions) {
	o.labels = append(o.labels, labels.SelectorFromSet(labels.Set(m)))
}
func (m MatchingLabels) toDeleteAllOf(o *deleteAllOfOptions) { m.toList(&o.list) }

// MatchingLabelsSelector selects objects by a label selector.
type MatchingLabelsSelector struct{ labels.Selector }

func (m MatchingLabelsSelector) toList(o *listOptions) {
	if m.Selector != nil {
		o.labels = append(o.labels, m.Selector)
	}
}
func (m MatchingLabelsSelector) toDeleteAllOf(o *deleteAllOfOptions) { m.toList(&o.list) }

// MatchingFields selects objects by fields: in a cached read by declared indexes, metadata.name
// and metadata.namespace; in a live one by what the server supports for the kind.
type MatchingFields map[string]string

func (m MatchingFields) toList(o *listOptions) {
	o.fields = append(o.fields, fields.SelectorFromSet(fields.Set(m)))
}
func (m MatchingFields) toDeleteAllOf(o *deleteAllOfOptions) { m.toList(&o.list) }

// Limit is the greatest number of objects to return. A live List that was cut off carries a token
// for [Continue]; a cached one does not.
type Limit int64

func (l Limit) toList(o *listOptions) { o.limit = int64(l) }

// Continue is the token of the List before this one; it makes the List live.
type Continue string

func (c Continue) toList(o *listOptions) { o.token = string(c) }

// FieldOwner replaces [Config.FieldOwner] for one write.
type FieldOwner string

func (f FieldOwner) toCreate(o *writeOptions) { o.owner = string(f) }
func (f FieldOwner) toUpdate(o *writeOptions) { o.owner = string(f) }
func (f FieldOwner) toPatch(o *writeOptions)  { o.owner = string(f) }
func (f FieldOwner) toApply(o *writeOptions)  { o.owner = string(f) }

type forceOption bool

// ForceOwnership makes Apply take fields over that other managers own, instead of failing with a
// conflict.
const ForceOwnership forceOption = true

func (f forceOption) toApply(o *writeOptions) { o.force = bool(f) }

type dryRunOption bool

// DryRun has the server check and answer the write without storing it.
const DryRun dryRunOption = true

func (d dryRunOption) toCreate(o *writeOptions) { o.dryRun = bool(d) }
func (d dryRunOption) toUpdate(o *writeOptions) { o.dryRun = bool(d) }
func (d dryRunOption) toPatch(o *writeOptions)  { o.dryRun = bool(d) }
func (d dryRunOption) toApply(o *writeOptions)  { o.dryRun = bool(d) }
func (d dryRunOption) toDelete(o *deleteOptions) {
	o.DryRun = nil
	if d {
		o.DryRun = []string{metav1.DryRunAll}
	}
}
func (d dryRunOption) toDeleteAllOf(o *deleteAllOfOptions) { d.toDelete(&o.deleteOptions) }

type ifUnchangedOption bool

// IfUnchanged makes the write fail with a conflict unless the object is still at the
// resourceVersion that the passed object has. Update does so anyhow, except for objects without a
// resourceVersion; with this option these are refused.
const IfUnchanged ifUnchangedOption = true

func (i ifUnchangedOption) toUpdate(o *writeOptions)  { o.ifUnchanged = bool(i) }
func (i ifUnchangedOption) toPatch(o *writeOptions)   { o.ifUnchanged = bool(i) }
func (i ifUnchangedOption) toApply(o *writeOptions)   { o.ifUnchanged = bool(i) }
func (i ifUnchangedOption) toDelete(o *deleteOptions) { o.ifUnchanged = bool(i) }

// PropagationPolicy says what happens to the dependents of a deleted object:
// metav1.DeletePropagationBackground, -Foreground or -Orphan. Without it the kind's default holds.
type PropagationPolicy metav1.DeletionPropagation

func (p PropagationPolicy) toDelete(o *deleteOptions) {
	policy := metav1.DeletionPropagation(p)
	o.PropagationPolicy = &policy
}
func (p PropagationPolicy) toDeleteAllOf(o *deleteAllOfOptions) { p.toDelete(&o.deleteOptions) }

// GracePeriod is how long the object may take to end by itself, rounded up to full seconds.
// Without it the object's own grace period holds.
type GracePeriod time.Duration

func (g GracePeriod) toDelete(o *deleteOptions) {
	seconds := int64((time.Duration(g) + time.Second - 1) / time.Second)
	o.GracePeriodSeconds = &seconds
}
func (g GracePeriod) toDeleteAllOf(o *deleteAllOfOptions) { g.toDelete(&o.deleteOptions) }

// Preconditions must hold for the object that is deleted. They replace the UID of the passed
// object as a precondition.
type Preconditions struct {
	UID             types.UID // empty: any
	ResourceVersion string    // empty: any
}

func (p Preconditions) toDelete(o *deleteOptions) {
	o.Preconditions = &metav1.Preconditions{}
	if p.UID != "" {
		o.Preconditions.UID = &p.UID
	}
	if p.ResourceVersion != "" {
		o.Preconditions.ResourceVersion = &p.ResourceVersion
	}
}

// SubResourceBody is the object to send in an Update, Patch or Apply of a subresource that has a
// kind of its own, such as an autoscaling/v1 Scale. Without it the object itself is sent, as
// "status" wants it.
func SubResourceBody(body Object) BodyOption { return BodyOption{body} }

// BodyOption is what [SubResourceBody] returns.
type BodyOption struct{ body Object }

func (b BodyOption) toUpdate(o *writeOptions) { o.body = b.body }
func (b BodyOption) toPatch(o *writeOptions)  { o.body = b.body }
func (b BodyOption) toApply(o *writeOptions)  { o.body = b.body }
