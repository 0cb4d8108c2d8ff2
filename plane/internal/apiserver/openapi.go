package apiserver

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	openapiaggregator "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Upstream builds and hashes the schemas of all groups at start, which takes longer
// than all the rest of it, and looks every second whether those of custom resources
// have changed. Here schemas are built when they are first asked for, and the
// server of custom resources is asked directly, so a new kind is in OpenAPI at once.

const (
	pathV2 = "/openapi/v2"
	pathV3 = "/openapi/v3"
)

// serveOpenAPI comes after PrepareRun, when everything static is installed.
func (s *Server) serveOpenAPI() {
	front, builtin, crds := s.aggregate.GenericAPIServer, s.builtin.GenericAPIServer, s.crds.GenericAPIServer
	serveBuiltinV2(builtin, s.generic.OpenAPIConfig)
	prepareCustom(crds)
	serveAggregatedV2(front, crds, s.generic.OpenAPIConfig)
	newOpenAPIV3(s.generic, crds.OpenAPIV3VersionedService, front, builtin, crds).register(front.Handler.NonGoRestfulMux)
	// The definitions of all types, 6 MB, have served their turn; whoever needs them
	// again makes them again.
	s.generic.OpenAPIV3Config.Definitions = nil
}

// prepareCustom makes the services that the controllers of custom resources publish
// their schemas in, and nothing else.
func prepareCustom(crds *genericapiserver.GenericAPIServer) {
	crds.StaticOpenAPISpec = &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{},
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{}},
		Definitions: spec.Definitions{},
	}}
	crds.OpenAPIVersionedService = handler.NewOpenAPIService(crds.StaticOpenAPISpec)
	crds.OpenAPIVersionedService.RegisterOpenAPIVersionedService(pathV2, crds.Handler.NonGoRestfulMux)
	crds.OpenAPIV3VersionedService = handler3.NewOpenAPIService()
}

// serveBuiltinV2 serves the schemas of the built-in groups, in version 2, on their
// own server. The aggregator merges them with the others'.
func serveBuiltinV2(server *genericapiserver.GenericAPIServer, config *common.Config) {
	build := cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
		services := server.Handler.GoRestfulContainer.RegisteredWebServices()
		swagger, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), config)
		if err != nil {
			return nil, "", fmt.Errorf("building OpenAPI v2 of the built-in groups: %w", err)
		}
		swagger.Definitions = handler.PruneDefaults(swagger.Definitions)
		return swagger, "built-in", nil
	}))
	handler.NewOpenAPIServiceLazy(build).RegisterOpenAPIVersionedService(pathV2, server.Handler.NonGoRestfulMux)
}

// serveAggregatedV2 merges the schemas of all three servers when they are asked for.
func serveAggregatedV2(front, crds *genericapiserver.GenericAPIServer, config *common.Config) {
	merged := sync.OnceValues(func() (http.Handler, error) {
		services := front.Handler.GoRestfulContainer.RegisteredWebServices()
		for _, service := range crds.Handler.GoRestfulContainer.RegisteredWebServices() {
			if strings.HasPrefix(service.RootPath(), "/apis/"+apiextensions.GroupName) {
				services = append(services, service)
			}
		}
		m := mux.NewPathRecorderMux("openapi-v2")
		downloader := openapiaggregator.NewDownloader()
		_, err := openapiaggregator.BuildAndRegisterAggregator(&downloader, front.NextDelegate(), services, config, m)
		return m, err
	})
	front.Handler.NonGoRestfulMux.HandleFunc(pathV2, func(w http.ResponseWriter, req *http.Request) {
		handler, err := merged()
		if err != nil {
			http.Error(w, fmt.Sprintf("building OpenAPI v2: %v", err), http.StatusInternalServerError)
			return
		}
		handler.ServeHTTP(w, req)
	})
}

// openAPIV3 serves the schemas of every group and version.
type openAPIV3 struct {
	config *common.OpenAPIV3Config
	// build admits one builder of schemas at a time; they share config.
	build  sync.Mutex
	static map[string]*staticSchema // by path, such as "apis/apps/v1"
	crds   *handler3.OpenAPIService
}

// staticSchema is one group and version that does not change while the server runs.
type staticSchema struct {
	url     string
	service *restful.WebService
	once    sync.Once
	handler http.Handler
}

// newOpenAPIV3 serves what the servers have installed, and the custom resources.
func newOpenAPIV3(config *genericapiserver.Config, crds *handler3.OpenAPIService, servers ...*genericapiserver.GenericAPIServer) *openAPIV3 {
	o := &openAPIV3{config: config.OpenAPIV3Config, static: map[string]*staticSchema{}, crds: crds}
	fingerprint := fingerprint(config)
	for _, server := range servers {
		for _, service := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
			path := strings.TrimPrefix(service.RootPath(), "/")
			hash := fmt.Sprintf("%X", sha512.Sum512([]byte(fingerprint+"\n"+path)))
			u := url.URL{Path: pathV3 + "/" + path, RawQuery: url.Values{"hash": {hash}}.Encode()}
			o.static[path] = &staticSchema{url: u.String(), service: service}
		}
	}
	return o
}

func (o *openAPIV3) register(m *mux.PathRecorderMux) {
	m.Handle(pathV3, http.HandlerFunc(o.serveIndex))
	m.HandlePrefix(pathV3+"/", http.HandlerFunc(o.serveSchema))
}

// serveIndex lists the paths of all schemas.
func (o *openAPIV3) serveIndex(w http.ResponseWriter, req *http.Request) {
	index, err := o.customIndex(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for path, schema := range o.static {
		index.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: schema.url}
	}
	body, err := json.Marshal(index) // sorts the paths
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// customIndex lists the paths of custom resources.
func (o *openAPIV3) customIndex(req *http.Request) (handler3.OpenAPIV3Discovery, error) {
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	response := &recorder{header: http.Header{}}
	unconditional := req.Clone(req.Context())
	unconditional.Header = http.Header{}
	o.crds.HandleDiscovery(response, unconditional)
	if err := json.Unmarshal(response.body, &index); err != nil {
		return index, fmt.Errorf("reading the index of custom resources' schemas: %w", err)
	}
	return index, nil
}

// serveSchema serves one group and version.
func (o *openAPIV3) serveSchema(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(req.URL.Path, pathV3+"/")
	schema := o.static[path]
	if schema == nil {
		index, err := o.customIndex(req)
		if _, ok := index.Paths[path]; err != nil || !ok {
			http.NotFound(w, req)
			return
		}
		o.crds.HandleGroupVersion(w, req)
		return
	}
	schema.once.Do(func() { schema.handler = o.buildSchema(schema.service) })
	if hash := req.URL.Query().Get("hash"); hash != "" {
		if !strings.HasSuffix(schema.url, "hash="+hash) {
			http.Redirect(w, req, schema.url, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
		// Upstream's handler knows another hash.
		plain := *req.URL
		plain.RawQuery = ""
		req = req.WithContext(req.Context())
		req.URL = &plain
	}
	schema.handler.ServeHTTP(w, req)
}

// buildSchema has upstream build the schema, for a container with nothing else in it.
func (o *openAPIV3) buildSchema(service *restful.WebService) http.Handler {
	o.build.Lock()
	defer o.build.Unlock()
	only := restful.NewContainer()
	only.Add(service)
	m := mux.NewPathRecorderMux("openapi-v3")
	routes.OpenAPI{V3Config: o.config}.InstallV3(only, m)
	return m
}

// fingerprint names the version and the features that schemas depend on. It keeps the
// schemas of different programs apart in the caches of clients.
func fingerprint(config *genericapiserver.Config) string {
	enabled := []string{config.EffectiveVersion.Info().GitVersion}
	for feature := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if config.FeatureGate.Enabled(feature) {
			enabled = append(enabled, string(feature))
		}
	}
	slices.Sort(enabled)
	return strings.Join(enabled, "\n")
}

// recorder keeps a response.
type recorder struct {
	header http.Header
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(int) {}

func (r *recorder) Write(p []byte) (int, error) {
	r.body = append(r.body, p...)
	return len(p), nil
}
