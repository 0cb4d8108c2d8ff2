package reload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
)

// staleCache is after how long a workload is looked at again whose sources the cache had in an older state than was
// rolled for.
const staleCache = time.Second

// policy returns what a workload asks for.
func (r *reconciler) policy(obj client.Object, pods *corev1.PodTemplateSpec) *policy {
	if r.kind.gvk.Kind == "Job" && metav1.GetControllerOfNoCopy(obj) != nil {
		return &policy{} // the next one of its CronJob starts with what there is then
	}
	return r.policyOf(obj.GetAnnotations(), pods.Annotations)
}

// policyOf returns what annotations of a workload of this kind ask for.
func (r *reconciler) policyOf(workload, template map[string]string) *policy {
	options := *r.options
	options.AutoAll = options.AutoAll && r.kind.gvk.Kind != "Job"
	return policyOf(workload, template, &options)
}

// observe finds the sources that a workload follows, as the cache has them.
func (r *reconciler) observe(ctx context.Context, p *pass) error {
	refs := references(&p.pods.Spec)
	candidates, err := r.candidates(ctx, p, refs)
	if err != nil {
		return err
	}
	p.seen = map[source]observed{}
	for s := range candidates {
		meta, err := r.metadata(ctx, p.GetNamespace(), s)
		if err != nil {
			return err
		}
		_, known := p.before.entry(s)
		switch {
		case meta == nil && p.policy.follows(s, refs[s], known):
			p.seen[s] = observed{}
		case meta != nil && !ignored(meta) && p.policy.follows(s, refs[s], matched(meta)):
			o := observed{entry: entry{p.key.of(p.GetNamespace(), s, meta.Annotations[digestAnnotation]), meta.ResourceVersion}}
			o.optional = refs[s] != nil && !refs[s].required
			o.appeared = refs[s] == nil && p.before != nil && !meta.CreationTimestamp.Time.Before(p.before.Since.Time)
			p.seen[s] = o
		}
	}
	return nil
}

// candidates returns the sources that a workload may follow: those that its template refers to, that it names, and, where
// it has regular expressions, those of its namespace that match and those that did when they were last seen.
func (r *reconciler) candidates(ctx context.Context, p *pass, refs map[source]*reference) (map[source]bool, error) {
	found := map[source]bool{}
	for _, kind := range r.options.sources() {
		for s := range refs {
			if s.kind == kind {
				found[s] = true
			}
		}
		named := p.policy.of(kind).named
		for _, name := range named.names {
			found[source{kind, name}] = true
		}
		if len(named.expressions) == 0 {
			continue
		}
		all := listOf(sourceKind(kind))
		if err := r.cache.List(ctx, sourceKind(kind), cache.ListOptions{Namespace: p.GetNamespace()}, all); err != nil {
			return nil, fmt.Errorf("looking for %ss in namespace %s: %w", kind, p.GetNamespace(), err)
		}
		for i := range all.Items {
			if name := all.Items[i].Name; named.match(name) {
				found[source{kind, strings.Clone(name)}] = true
			}
		}
	}
	if p.before != nil {
		for s := range p.before.Sources {
			if p.policy.of(s.kind).named.match(s.name) {
				found[s] = true
			}
		}
	}
	return found, nil
}

// metadata returns the metadata of a source as the cache has it, or nil when it does not exist.
func (r *reconciler) metadata(ctx context.Context, namespace string, s source) (*metav1.PartialObjectMetadata, error) {
	meta := &metav1.PartialObjectMetadata{}
	err := r.cache.Get(ctx, sourceKind(s.kind), types.NamespacedName{Namespace: namespace, Name: s.name}, meta)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", s.kind, namespace, s.name, err)
	}
	if meta.Annotations[digestAnnotation] == "" {
		return nil, fmt.Errorf("%s %s/%s has no digest in the cache: make the manager with reload.Kinds in its Config", s.kind, namespace, s.name)
	}
	return meta, nil
}

func ignored(meta *metav1.PartialObjectMetadata) bool {
	return isTrue(meta.Annotations, Ignore) || isTrue(meta.Annotations, reloaderIgnore)
}

func matched(meta *metav1.PartialObjectMetadata) bool {
	return isTrue(meta.Annotations, Match) || isTrue(meta.Annotations, reloaderMatch)
}

// entry returns what is remembered of a source.
func (m *memory) entry(s source) (entry, bool) {
	if m == nil {
		return entry{}, false
	}
	e, ok := m.Sources[s]
	return e, ok
}

// confirm asks the server about those changes that may be none: another replica may have rolled for a state that this
// one's cache has yet to see. It corrects what is seen, and reports whether it had to.
func (r *reconciler) confirm(ctx context.Context, p *pass) (corrected bool, err error) {
	for _, c := range p.changes {
		was, _ := p.before.entry(c.source)
		now := p.seen[c.source]
		if was.hash != "" && now.hash != "" && !older(now.version, was.version) {
			continue
		}
		live, err := r.live(ctx, p.GetNamespace(), c.source, p.key)
		if err != nil {
			return false, err
		}
		if live.hash != now.hash {
			now.entry, corrected = live, true
			p.seen[c.source] = now
		}
	}
	return corrected, nil
}

// seek asks the server about the sources that are new to the workload and that the cache does not have: what was made together
// with the workload, and has yet to be seen, did not come into being later.
func (r *reconciler) seek(ctx context.Context, p *pass) error {
	for _, s := range slices.SortedFunc(maps.Keys(p.decision.next), source.compare) {
		if _, known := p.before.entry(s); known || p.decision.next[s].hash != "" {
			continue
		}
		live, err := r.live(ctx, p.GetNamespace(), s, p.key)
		if err != nil {
			return err
		}
		p.decision.next[s] = live
	}
	return nil
}

// older reports whether a resourceVersion is surely of before another one.
func older(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c < 0
}

// live returns a source's content as the server has it. A list takes no other rights than the watch does.
func (r *reconciler) live(ctx context.Context, namespace string, s source, key secretKey) (entry, error) {
	var list client.ObjectList = &corev1.ConfigMapList{}
	if s.kind == kindSecret {
		list = &corev1.SecretList{}
	}
	opts := []client.ListOption{client.Live, client.InNamespace(namespace), client.MatchingFields{"metadata.name": s.name}}
	if r.options.SourceSelector != nil {
		opts = append(opts, client.MatchingLabelsSelector{Selector: r.options.SourceSelector})
	}
	err := r.client.List(ctx, list, opts...)
	if err != nil {
		return entry{}, err
	}
	var digest, version string
	switch list := list.(type) {
	case *corev1.ConfigMapList:
		for i := range list.Items {
			if digest, err = digestOf(&list.Items[i]); err != nil {
				return entry{}, err
			}
			version = list.Items[i].ResourceVersion
		}
	case *corev1.SecretList:
		for i := range list.Items {
			if digest, err = digestOf(&list.Items[i]); err != nil {
				return entry{}, err
			}
			version = list.Items[i].ResourceVersion
		}
	}
	if version == "" {
		return entry{}, nil
	}
	return entry{key.of(namespace, s, digest), version}, nil
}
