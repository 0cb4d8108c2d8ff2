package reload

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/cache"
)

const (
	defaultWindow         = 500 * time.Millisecond
	defaultRollingTimeout = 10 * time.Minute
)

// DefaultKeyName is the name of the Secret that holds the key of the hashes when Options.Key names none.
const DefaultKeyName = "setpoint-reload-key"

// defaultKey is the Secret that holds the key of the hashes when Options.Key names none.
var defaultKey = types.NamespacedName{Namespace: "setpoint-system", Name: DefaultKeyName}

// Options say which workloads and sources the operator follows, and how it rolls. With the zero value it rolls any
// workload that is annotated, in all namespaces.
type Options struct {
	// Workloads are the kinds that may be rolled, of Deployment, StatefulSet, DaemonSet, CronJob, Job and Rollout. Empty:
	// all of them. A kind that the server does not serve, or does not allow to be watched, makes only its own controller
	// wait, which /readyz and the log name.
	Workloads []string
	// Namespaces limits the operator to these namespaces. Empty: all.
	Namespaces []string
	// NamespaceSelector limits the operator to namespaces by their labels, as they change; the role must then allow to
	// list and watch namespaces. Nil: all. It must not be used together with Namespaces.
	NamespaceSelector labels.Selector
	// WorkloadSelector limits the operator to workloads by their labels. Nil: all.
	WorkloadSelector labels.Selector
	// SourceSelector limits the operator to ConfigMaps and Secrets by their labels: others seem not to exist. Nil: all.
	SourceSelector labels.Selector
	// IgnoreConfigMaps and IgnoreSecrets follow none of that kind; the operator then neither reads nor watches them.
	IgnoreConfigMaps, IgnoreSecrets bool

	// AutoAll treats every workload but Jobs as if it were annotated to follow all that its Pod template refers to. The
	// annotation Auto with the value "false" opts out.
	AutoAll bool
	// OnCreate and OnDelete roll when a source that a workload follows comes into being or is deleted. The annotations of
	// these names take precedence.
	OnCreate, OnDelete bool

	// Window is how long, after the first change, further ones are waited for, so that they take one rollout. Zero: half a
	// second; negative: none.
	Window time.Duration
	// MaxRolling bounds how many workloads that the operator rolled may be unfinished at once in the whole cluster. Zero:
	// no bound.
	MaxRolling int
	// RollingTimeout is after how long an unfinished rollout no longer counts. Zero: 10 minutes.
	RollingTimeout time.Duration
	// DryRun writes nothing to workloads; Events and the log say what would have been rolled. What was seen is then kept in
	// memory only.
	DryRun bool

	// NotifyURL receives a POST with a JSON object for each rollout; see Notification. Empty: none.
	NotifyURL string
	// Key names the Secret with the key of the hashes that are remembered on workloads. It is made when it does not exist.
	// Its loss rolls nothing, but changes of that moment go unnoticed. Zero: setpoint-reload-key in setpoint-system.
	Key types.NamespacedName
}

// AddFlags defines a flag for each option, with its present value as the default.
func (o *Options) AddFlags(fs *flag.FlagSet) {
	fs.Func("workloads", "kinds of workloads that may be rolled, separated by commas: "+strings.Join(kindNames(), ", ")+" (default: all)",
		listFlag(&o.Workloads))
	fs.Func("namespaces", "namespaces to work in, separated by commas (default: all)", listFlag(&o.Namespaces))
	fs.Func("namespace-selector", "label selector of the namespaces to work in", selectorFlag(&o.NamespaceSelector))
	fs.Func("workload-selector", "label selector of the workloads that may be rolled", selectorFlag(&o.WorkloadSelector))
	fs.Func("source-selector", "label selector of the ConfigMaps and Secrets to follow", selectorFlag(&o.SourceSelector))
	fs.BoolVar(&o.IgnoreConfigMaps, "ignore-configmaps", o.IgnoreConfigMaps, "follow no ConfigMaps")
	fs.BoolVar(&o.IgnoreSecrets, "ignore-secrets", o.IgnoreSecrets, "follow no Secrets")
	fs.BoolVar(&o.AutoAll, "auto-all", o.AutoAll, "follow all that any workload's Pod template refers to, without an annotation")
	fs.BoolVar(&o.OnCreate, "on-create", o.OnCreate, "roll when a source comes into being")
	fs.BoolVar(&o.OnDelete, "on-delete", o.OnDelete, "roll when a source is deleted")
	fs.DurationVar(&o.Window, "window", o.window(), "wait so long after a change for further ones, to roll once for all of them; negative: not at all")
	fs.IntVar(&o.MaxRolling, "max-rolling", o.MaxRolling, "let at most so many rolled workloads be unfinished at once; 0: any number")
	fs.DurationVar(&o.RollingTimeout, "rolling-timeout", o.rollingTimeout(), "an unfinished rollout counts no longer than this")
	fs.BoolVar(&o.DryRun, "dry-run", o.DryRun, "only say by Events and in the log what would be rolled")
	fs.StringVar(&o.NotifyURL, "notify-url", o.NotifyURL, "POST a JSON object to this URL for each rollout")
	fs.Func("key", "the Secret, as NAMESPACE/NAME, that holds the key of the remembered hashes (default: "+defaultKey.String()+")",
		func(s string) error {
			namespace, name, ok := strings.Cut(s, "/")
			if !ok || namespace == "" || name == "" {
				return errors.New("want NAMESPACE/NAME")
			}
			o.Key = types.NamespacedName{Namespace: namespace, Name: name}
			return nil
		})
}

func listFlag(into *[]string) func(string) error {
	return func(s string) error {
		*into = splitList(s)
		return nil
	}
}

func selectorFlag(into *labels.Selector) func(string) error {
	return func(s string) error {
		selector, err := labels.Parse(s)
		if err == nil {
			*into = selector
		}
		return err
	}
}

// check returns all that is wrong with the options.
func (o *Options) check() error {
	var errs []error
	for _, name := range o.Workloads {
		if !slices.Contains(kindNames(), name) {
			errs = append(errs, fmt.Errorf("workloads: there is no kind %q, but %s", name, strings.Join(kindNames(), ", ")))
		}
	}
	if len(o.Namespaces) > 0 && o.NamespaceSelector != nil {
		errs = append(errs, errors.New("namespaces and namespace-selector are both set: use one"))
	}
	if o.IgnoreConfigMaps && o.IgnoreSecrets {
		errs = append(errs, errors.New("ignore-configmaps and ignore-secrets leave nothing to follow"))
	}
	if o.MaxRolling < 0 {
		errs = append(errs, fmt.Errorf("max-rolling: %d is negative; 0 means any number", o.MaxRolling))
	}
	if o.RollingTimeout < 0 {
		errs = append(errs, fmt.Errorf("rolling-timeout: %v is negative", o.RollingTimeout))
	}
	if o.NotifyURL != "" {
		if u, err := url.Parse(o.NotifyURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("notify-url: %q is no http or https URL", o.NotifyURL))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) window() time.Duration {
	if o.Window == 0 {
		return defaultWindow
	}
	return max(o.Window, 0)
}

func (o *Options) rollingTimeout() time.Duration {
	if o.RollingTimeout == 0 {
		return defaultRollingTimeout
	}
	return o.RollingTimeout
}

func (o *Options) key() types.NamespacedName {
	if o.Key == (types.NamespacedName{}) {
		return defaultKey
	}
	return o.Key
}

// kinds returns the kinds of workloads to follow.
func (o *Options) kinds() []*workloadKind {
	all := workloadKinds()
	if len(o.Workloads) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(k *workloadKind) bool { return !slices.Contains(o.Workloads, k.gvk.Kind) })
}

// sources returns the kinds of sources to follow.
func (o *Options) sources() []string {
	var kinds []string
	if !o.IgnoreConfigMaps {
		kinds = append(kinds, kindConfigMap)
	}
	if !o.IgnoreSecrets {
		kinds = append(kinds, kindSecret)
	}
	return kinds
}

// Kinds returns the options of the cache that the operator's manager must have: for setpoint.Config.Kinds. Of ConfigMaps
// and Secrets only digests of their content are kept in memory, so the manager must not be shared with controllers that
// read them.
func Kinds(o Options) map[schema.GroupKind]cache.Options {
	kinds := map[schema.GroupKind]cache.Options{}
	for _, kind := range o.sources() {
		kinds[sourceKind(kind).GroupKind()] = cache.Options{
			Namespaces: o.Namespaces, NamespaceSelector: o.NamespaceSelector, Labels: o.SourceSelector, Transform: keepDigest,
		}
	}
	for _, k := range o.kinds() {
		kinds[k.gvk.GroupKind()] = cache.Options{
			Namespaces: o.Namespaces, NamespaceSelector: o.NamespaceSelector, Labels: o.WorkloadSelector,
		}
	}
	return kinds
}
