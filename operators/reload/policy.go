package reload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// policy is what a workload's annotations, and the options where these say nothing, ask for.
type policy struct {
	configMaps, secrets selection
	// frozen limits auto to what running Pods never see change.
	frozen bool
	// search follows the sources that the template refers to and that carry Match.
	search bool

	onCreate, onDelete bool
	window, pause      time.Duration
	restart            bool // an Argo Rollout: by spec.restartAt
	runNow, rerun      bool

	// problems are the annotations that make no sense, and why. They are left out; the rest counts.
	problems []string
}

// selection is what is followed of one kind of sources.
type selection struct {
	auto           bool
	named, exclude patterns
}

// selecting are the annotations that make a workload follow something. When it has none of them, those of its Pod
// template count.
var selecting = []string{
	Auto, ConfigMaps, Secrets, Search, fabric8Update,
	reloaderAuto, reloaderSearch, reloaderConfigMapAuto, reloaderConfigMaps, reloaderSecretAuto, reloaderSecrets,
}

// selects reports whether annotations make a workload follow something.
func selects(annotations map[string]string) bool {
	return slices.ContainsFunc(selecting, func(key string) bool { _, ok := annotations[key]; return ok })
}

// policyOf reads the annotations of a workload and of its Pod template.
func policyOf(workload, template map[string]string, o *Options) *policy {
	annotations := workload
	if !selects(workload) && len(template) > 0 {
		annotations = maps.Clone(template)
		maps.Copy(annotations, workload)
	}
	p := &policy{onCreate: o.OnCreate, onDelete: o.OnDelete, window: o.window()}
	if isTrue(annotations, Ignore) || isTrue(annotations, reloaderIgnore) {
		return p
	}
	r := reader{annotations: annotations, policy: p}
	r.readSelection(o)
	r.bool(OnCreate, &p.onCreate)
	r.bool(OnDelete, &p.onDelete)
	r.bool(RunNow, &p.runNow)
	r.bool(Rerun, &p.rerun)
	r.duration(reloaderPause, &p.pause)
	r.duration(PausePeriod, &p.pause)
	r.duration(Window, &p.window)
	r.strategy(reloaderStrategy)
	r.strategy(RolloutStrategy)
	return p
}

// reader reads annotations into a policy and notes those that make no sense.
type reader struct {
	annotations map[string]string
	policy      *policy
}

func (r reader) readSelection(o *Options) {
	p := r.policy
	p.configMaps.auto, p.secrets.auto = o.AutoAll, o.AutoAll
	auto := false
	if r.bool(reloaderAuto, &auto) {
		p.configMaps.auto, p.secrets.auto = auto, auto
	}
	r.bool(reloaderConfigMapAuto, &p.configMaps.auto)
	r.bool(reloaderSecretAuto, &p.secrets.auto)
	if auto { // in Reloader each of them is enough, so that "false" takes nothing from the other
		p.configMaps.auto, p.secrets.auto = true, true
	}
	r.auto()
	r.bool(reloaderSearch, &p.search)
	r.bool(Search, &p.search)
	r.list(fabric8Update, &p.configMaps.named, parseNames)
	for _, key := range []string{ConfigMaps, reloaderConfigMaps} {
		r.list(key, &p.configMaps.named, parsePatterns)
	}
	for _, key := range []string{Secrets, reloaderSecrets} {
		r.list(key, &p.secrets.named, parsePatterns)
	}
	for _, key := range []string{ExcludeConfigMaps, reloaderNoConfigMaps} {
		r.list(key, &p.configMaps.exclude, parsePatterns)
	}
	for _, key := range []string{ExcludeSecrets, reloaderNoSecrets} {
		r.list(key, &p.secrets.exclude, parsePatterns)
	}
	for _, key := range []string{reloaderCSIAuto, reloaderCSI} {
		if _, ok := r.annotations[key]; ok {
			r.problem(key, "SecretProviderClasses are not followed; mirror them to Secrets (secretObjects) and follow these")
		}
	}
	if o.IgnoreConfigMaps {
		p.configMaps = selection{}
	}
	if o.IgnoreSecrets {
		p.secrets = selection{}
	}
}

func (r reader) problem(key string, why any) {
	r.policy.problems = append(r.policy.problems, fmt.Sprintf("annotation %s: %v", key, why))
}

// auto reads this operator's own annotation of that name, which wins over those of others.
func (r reader) auto() {
	value, ok := r.annotations[Auto]
	if !ok {
		return
	}
	p := r.policy
	p.configMaps.auto, p.secrets.auto = false, false
	for _, word := range splitList(value) {
		switch strings.ToLower(word) {
		case "true":
			p.configMaps.auto, p.secrets.auto = true, true
		case "frozen":
			p.configMaps.auto, p.secrets.auto, p.frozen = true, true, true
		case "configmaps":
			p.configMaps.auto = true
		case "secrets":
			p.secrets.auto = true
		case "false":
		default:
			r.problem(Auto, fmt.Sprintf("%q is none of true, configmaps, secrets, frozen, false", word))
		}
	}
}

// bool sets value when the annotation is there and makes sense, and reports whether it did.
func (r reader) bool(key string, value *bool) bool {
	text, ok := r.annotations[key]
	if !ok {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "t", "1": // all that Reloader takes for it
		*value = true
	case "false", "f", "0", "":
		*value = false
	default:
		r.problem(key, fmt.Sprintf("%q is neither true nor false", text))
		return false
	}
	return true
}

func (r reader) duration(key string, value *time.Duration) {
	text, ok := r.annotations[key]
	if !ok {
		return
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	switch {
	case err != nil:
		r.problem(key, fmt.Sprintf("%q is no duration such as 30s or 5m", text))
	case d < 0:
		r.problem(key, fmt.Sprintf("%q is negative", text))
	default:
		*value = d
	}
}

func (r reader) list(key string, into *patterns, parse func(string) (patterns, []error)) {
	text, ok := r.annotations[key]
	if !ok {
		return
	}
	p, errs := parse(text)
	into.names = append(into.names, p.names...)
	into.expressions = append(into.expressions, p.expressions...)
	for _, err := range errs {
		r.problem(key, err)
	}
}

func (r reader) strategy(key string) {
	text, ok := r.annotations[key]
	if !ok {
		return
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "restart":
		r.policy.restart = true
	case "rollout":
		r.policy.restart = false
	default:
		r.problem(key, fmt.Sprintf("%q is neither rollout nor restart", text))
	}
}

// of returns what is followed of a kind of sources.
func (p *policy) of(kind string) *selection {
	if kind == kindSecret {
		return &p.secrets
	}
	return &p.configMaps
}

// follows reports whether a source is followed that the template refers to in that way (nil: it does not). matched says
// that it carries Match.
func (p *policy) follows(s source, ref *reference, matched bool) bool {
	of := p.of(s.kind)
	switch {
	case of.exclude.match(s.name):
		return false
	case of.named.match(s.name):
		return true
	case ref == nil:
		return false
	case of.auto && (ref.frozen || !p.frozen):
		return true
	}
	return p.search && matched
}

// idle reports whether nothing can be followed at all.
func (p *policy) idle() bool {
	for _, of := range []*selection{&p.configMaps, &p.secrets} {
		if of.auto || len(of.named.names) > 0 || len(of.named.expressions) > 0 {
			return false
		}
	}
	return !p.search
}

// isTrue reports whether an annotation says true.
func isTrue(annotations map[string]string, key string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[key]), "true")
}
