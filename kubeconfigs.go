package setpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/filter"
	"github.com/setpoint-dev/setpoint/queue"
)

// The defaults of SecretClusters.
const (
	defaultClusterLabel  = "setpoint.dev/cluster"
	defaultKubeconfigKey = "kubeconfig"
)

// How clusters follow their Secrets.
const (
	clusterChanges = 16               // clusters that are added or removed at a time
	removalGrace   = 10 * time.Second // for reconciles of a cluster whose Secret went or changed
)

// SecretClusters says which Secrets of the manager's own cluster hold kubeconfigs
// of clusters to add.
type SecretClusters struct {
	// Namespace is that of the Secrets. Required.
	Namespace string
	// Selector selects the Secrets by their labels, as kubectl's --selector does.
	// Empty: "setpoint.dev/cluster", those that have such a label.
	Selector string
	// Key is where in a Secret's data the kubeconfig is. Empty: "kubeconfig".
	Key string
	// Configure may change how a cluster is reached, such as by another transport
	// or time-out. Nil: as the kubeconfig says.
	Configure func(name string, cfg *ClusterConfig) error
}

// ClustersFromSecrets has the manager's clusters follow Secrets: one is added
// under the name of each Secret, removed with it, and replaced when its kubeconfig
// changes. It must be called before Run. The service account needs get, list and
// watch of the Secrets in that namespace.
//
// Of a kubeconfig the current context counts. It must hold all that it needs:
// commands to run, authentication plug-ins and names of files are refused, so that
// who may write a Secret cannot run or read anything in this process. A Secret that
// cannot be used is named in the log, and in /readyz as a detail.
func ClustersFromSecrets(m *Manager, cfg SecretClusters) {
	if cfg.Selector == "" {
		cfg.Selector = defaultClusterLabel
	}
	if cfg.Key == "" {
		cfg.Key = defaultKubeconfigKey
	}
	selector, err := labels.Parse(cfg.Selector)
	if cfg.Namespace == "" {
		err = errors.Join(err, errors.New("the namespace of the Secrets is missing"))
	}
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.errs = append(m.errs, fmt.Errorf("ClustersFromSecrets: %w", err))
		return
	}
	const name = "clusters-from-secrets"
	f := &follower{
		m: m, cfg: cfg, selector: selector, log: m.log.With("runnable", name),
		queue:  queue.New(queue.Config[string]{}),
		wanted: map[string][]byte{}, added: map[string][]byte{}, problems: map[string]error{},
	}
	m.Add(Runnable{Name: name, Run: f.run, Standby: true, Check: f.check})
}

// follower adds and removes clusters as Secrets come and go. It decides by what
// is wanted last, cluster by cluster.
type follower struct {
	m        *Manager
	cfg      SecretClusters
	selector labels.Selector
	log      *slog.Logger
	queue    *queue.Queue[string] // of names

	mu       sync.Mutex
	wanted   map[string][]byte // kubeconfigs of the Secrets that there are
	added    map[string][]byte // those that clusters were added with
	problems map[string]error  // of Secrets that cannot be used
	watch    *cache.Watch
}

// run follows the Secrets until ctx ends.
func (f *follower) run(ctx context.Context) error {
	home := f.m.home
	secrets, err := cache.New(cache.Config{
		REST: home.rest, HTTP: home.http, Scheme: clientgoscheme.Scheme, Mapper: home.mapper, Logger: f.log,
		Default: cache.Options{Namespaces: []string{f.cfg.Namespace}, Labels: f.selector},
	})
	if err != nil {
		return err
	}
	watch, err := secrets.Watch(corev1.SchemeGroupVersion.WithKind("Secret"), f.see)
	if err != nil {
		return err
	}
	defer watch.Close()
	f.mu.Lock()
	f.watch = watch
	f.mu.Unlock()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer f.queue.ShutDown()
	for range clusterChanges {
		workers.Go(func() { f.work(ctx) })
	}
	return secrets.Run(ctx)
}

// see takes in a change of a Secret.
func (f *follower) see(change filter.Change) {
	name := change.Latest().Meta().Name
	var kubeconfig []byte
	if change.New != nil {
		object, err := change.New.Object()
		if err != nil {
			f.log.Error("a Secret cannot be read", "secret", name, "error", err)
			return
		}
		// Not nil, also when the key is missing, which the parser then says.
		kubeconfig = append([]byte{}, object.(*corev1.Secret).Data[f.cfg.Key]...)
	}
	f.mu.Lock()
	if kubeconfig == nil {
		delete(f.wanted, name)
	} else {
		f.wanted[name] = kubeconfig
	}
	f.mu.Unlock()
	f.queue.Add(name, queue.Fresh, queue.Cause{})
}

func (f *follower) work(ctx context.Context) {
	for {
		item, err := f.queue.Get(ctx)
		if err != nil {
			return
		}
		if err := f.follow(ctx, item.Key); err != nil && ctx.Err() == nil {
			f.log.Error("a cluster does not follow its Secret, trying again", "cluster", item.Key, "error", err)
			f.queue.AddRateLimited(item.Key, queue.Cause{})
		} else {
			f.queue.Forget(item.Key)
		}
		f.queue.Done(item.Key)
	}
}

// follow makes a cluster what its Secret says. An error is worth trying again.
func (f *follower) follow(ctx context.Context, name string) error {
	f.mu.Lock()
	want, have := f.wanted[name], f.added[name]
	delete(f.problems, name)
	same := want != nil && have != nil && bytes.Equal(want, have)
	if !same {
		delete(f.added, name)
	}
	f.mu.Unlock()
	if same {
		return nil
	}
	if have != nil {
		hurry, cancel := context.WithTimeout(ctx, removalGrace)
		defer cancel()
		if err := f.m.RemoveCluster(hurry, name); err != nil {
			return err
		}
	}
	if want == nil {
		return nil
	}
	config, err := restOf(want)
	if err != nil {
		f.log.Error("a Secret holds no kubeconfig that can be used", "secret", name, "key", f.cfg.Key, "error", err)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.problems[name] = err
		return nil
	}
	cfg := ClusterConfig{REST: config}
	if f.cfg.Configure != nil {
		if err := f.cfg.Configure(name, &cfg); err != nil {
			return fmt.Errorf("configure cluster %q: %w", name, err)
		}
	}
	if err := f.m.AddCluster(name, cfg); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added[name] = want
	return nil
}

// check fails until the Secrets were listed, for then it is not known which
// clusters there are.
func (f *follower) check() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch == nil {
		return "", errors.New("not started")
	}
	select {
	case <-f.watch.Synced():
	default:
		if err := f.watch.Err(); err != nil {
			return "", fmt.Errorf("waiting for the Secrets: %w", err)
		}
		return "", errors.New("waiting for the Secrets")
	}
	detail := fmt.Sprintf("%d clusters", len(f.added))
	for _, name := range slices.Sorted(maps.Keys(f.problems)) {
		detail += fmt.Sprintf("; Secret %s: %v", name, f.problems[name])
	}
	return detail, nil
}

// restOf returns the configuration of a kubeconfig's current context. It refuses
// what would run or read something of this process. What a parser says of it is not
// told: it may quote what is secret.
func restOf(kubeconfig []byte) (*rest.Config, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("it is missing or empty")
	}
	all, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig")
	}
	current := all.Contexts[all.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("its current context %q is not in it", all.CurrentContext)
	}
	cluster, user := all.Clusters[current.Cluster], all.AuthInfos[current.AuthInfo]
	if cluster == nil {
		return nil, fmt.Errorf("its cluster %q is not in it", current.Cluster)
	}
	var errs []error
	if cluster.CertificateAuthority != "" {
		errs = append(errs, errors.New("it names a file, certificate-authority: use certificate-authority-data"))
	}
	if user != nil {
		switch {
		case user.Exec != nil:
			errs = append(errs, errors.New("it names a command to run, exec: use a token or a client certificate"))
		case user.AuthProvider != nil:
			errs = append(errs, errors.New("it names a plug-in, auth-provider: use a token or a client certificate"))
		case user.TokenFile != "", user.ClientCertificate != "", user.ClientKey != "":
			errs = append(errs, errors.New("its user names a file: use token, client-certificate-data and client-key-data"))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	config, err := clientcmd.NewDefaultClientConfig(*all, nil).ClientConfig()
	if err != nil {
		return nil, errors.New("it is incomplete")
	}
	return config, nil
}
