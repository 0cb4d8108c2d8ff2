package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/cache"
)

// Config says which server a Client talks to and what it does by default.
type Config struct {
	// REST reaches the API server. Required. A zero QPS means no client-side rate limit.
	REST *rest.Config

	// HTTP is the client to send requests with; it must have been made from REST. Nil makes one.
	HTTP *http.Client

	// Scheme maps kinds to Go types. Nil is the scheme of the built-in kinds.
	Scheme *runtime.Scheme

	// Mapper maps kinds to resources. Nil is [NewMapper].
	Mapper meta.RESTMapper

	// Cache answers reads of the kinds that are watched. Nil makes every read live.
	Cache *cache.Cache

	// FieldOwner names the manager of the fields that are written. Empty leaves it to the server
	// to derive one from the user agent; Apply then needs the option. The cache must list it in
	// its FieldOwners for Apply to recognise that it would change nothing.
	FieldOwner string

	// OwnWriteWait is the longest time, counted from the write, that cached reads wait for it to
	// reach the cache before they go to the server. Zero is 2 s.
	OwnWriteWait time.Duration

	// Gate sees every request before it leaves. Nil lets all pass.
	Gate Gate

	// Observe is told of every write: see [Observer]. Nil: nobody is.
	Observe Observer

	// Logger gets warnings of the server and of the client. Nil discards.
	Logger *slog.Logger

	// Metrics gets the client's collectors. Nil registers none.
	Metrics prometheus.Registerer
}

const defaultOwnWriteWait = 2 * time.Second

// Client reads and writes API objects. Its methods may be called concurrently, though not with the
// same object. A method that returns no error has set the passed object to what the server or the
// cache answered, nothing of what it held before remaining; a method that fails leaves it as it
// was, but for its kind.
type Client struct {
	scheme     *runtime.Scheme
	mapper     meta.RESTMapper
	rest       rest.Interface
	codec      *codec
	cache      *cache.Cache // nil: none
	own        *ownWrites
	applied    applications
	fieldOwner string
	gate       Gate
	observe    Observer // nil: nobody is told
	log        *slog.Logger
	metrics    *metrics
}

// New returns a Client. It sends no request.
func New(cfg Config) (*Client, error) {
	if cfg.REST == nil {
		return nil, errors.New("client: Config.REST is required")
	}
	if cfg.OwnWriteWait < 0 {
		return nil, fmt.Errorf("client: Config.OwnWriteWait is %v, which is negative; AllowStale reads without waiting", cfg.OwnWriteWait)
	}
	if cfg.Scheme == nil {
		cfg.Scheme = clientgoscheme.Scheme
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Gate == nil {
		cfg.Gate = openGate
	}
	if cfg.OwnWriteWait == 0 {
		cfg.OwnWriteWait = defaultOwnWriteWait
	}
	codec, err := newCodec(cfg.Scheme)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{
		scheme:     cfg.Scheme,
		codec:      codec,
		cache:      cfg.Cache,
		fieldOwner: cfg.FieldOwner,
		gate:       cfg.Gate,
		observe:    cfg.Observe,
		log:        cfg.Logger,
		metrics:    metrics,
	}
	if err := c.connect(cfg); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c.own = newOwnWrites(cfg.Cache, c.mapper, cfg.OwnWriteWait)
	return c, nil
}

// connect sets up what reaches the server.
func (c *Client) connect(cfg Config) (err error) {
	config := unlimited(cfg.REST)
	config.NegotiatedSerializer = c.codec.negotiated
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandlerWithContext = warnings{c.log}
	}
	if cfg.HTTP == nil {
		if cfg.HTTP, err = rest.HTTPClientFor(config); err != nil {
			return fmt.Errorf("HTTP client: %w", err)
		}
	}
	if c.rest, err = rest.UnversionedRESTClientForConfigAndClient(config, cfg.HTTP); err != nil {
		return err
	}
	if c.mapper = cfg.Mapper; c.mapper == nil {
		c.mapper, err = NewMapper(cfg.REST, cfg.HTTP)
	}
	return err
}

// Scheme is the client's scheme.
func (c *Client) Scheme() *runtime.Scheme { return c.scheme }

// Mapper is the client's mapper.
func (c *Client) Mapper() meta.RESTMapper { return c.mapper }

// GroupVersionKind is [KindOf] in the client's scheme.
func (c *Client) GroupVersionKind(obj runtime.Object) (schema.GroupVersionKind, error) {
	return KindOf(obj, c.scheme)
}

// IsNamespaced reports whether the objects of obj's kind live in namespaces. It may have to ask
// the server.
func (c *Client) IsNamespaced(obj runtime.Object) (bool, error) {
	gvk, err := KindOf(obj, c.scheme)
	if err != nil {
		return false, err
	}
	t, err := c.target(gvk, types.NamespacedName{})
	return err == nil && t.namespaced(), err
}

// target finds the resource of a kind. A namespace is dropped where there is none.
func (c *Client) target(gvk schema.GroupVersionKind, key types.NamespacedName) (target, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return target{}, fmt.Errorf("the server has no kind %v: is its CustomResourceDefinition installed? %w", gvk, err)
	}
	if err != nil {
		return target{}, fmt.Errorf("find the resource of kind %v: %w", gvk, err)
	}
	t := target{gvk: gvk, mapping: mapping, key: key}
	if !t.namespaced() {
		t.key.Namespace = ""
	}
	return t, nil
}

// targetOf is the target of an object by its own name, which may be missing if unnamed says so.
func (c *Client) targetOf(obj Object, unnamed bool) (target, error) {
	gvk, err := KindOf(obj, c.scheme)
	if err != nil {
		return target{}, err
	}
	t, err := c.target(gvk, KeyOf(obj))
	if err != nil {
		return target{}, err
	}
	return t, t.complete(unnamed)
}

// warnings logs the warnings of the server.
type warnings struct{ log *slog.Logger }

func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	// 299 is the code that the API server uses; others belong to proxies.
	if code == 299 && text != "" {
		w.log.WarnContext(ctx, "the API server warns", "warning", text)
	}
}
