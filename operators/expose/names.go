package expose

// Annotations of a Service, the operator's own and exposecontroller's. Where a Service has both, its own counts.
const (
	ownPrefix = "expose.setpoint.dev/"

	askOwn      = ownPrefix + "expose"
	askLegacy   = "fabric8.io/expose"
	askInject   = "fabric8.io/inject"
	askLabel    = "expose" // a label
	exposerName = ownPrefix + "exposer"

	ingressNameOwn      = ownPrefix + "ingress-name"
	ingressNameLegacy   = "fabric8.io/ingress.name"
	releaseLabel        = "release" // a label; the prefix of the Service's name that it names is left out
	hostOwn             = ownPrefix + "host"
	hostNameOwn         = ownPrefix + "host-name"
	hostNameLegacy      = "fabric8.io/host.name"
	pathOwn             = ownPrefix + "path"
	pathLegacy          = "fabric8.io/ingress.path"
	pathModeOwn         = ownPrefix + "path-mode"
	pathModeLegacy      = "fabric8.io/path.mode"
	pathTypeOwn         = ownPrefix + "path-type"
	portOwn             = ownPrefix + "port"
	portLegacy          = "fabric8.io/exposePort"
	internalOwn         = ownPrefix + "use-internal-domain"
	internalLegacy      = "fabric8.io/use.internal.domain"
	annotationsOwn      = ownPrefix + "annotations"
	annotationsLegacy   = "fabric8.io/ingress.annotations"
	hostAnnotationOwn   = ownPrefix + "host-annotation"
	hostAnnotationOther = "fabric8.io/exposeHostNameAs"
	tlsOwn              = ownPrefix + "tls"
	skipTLSLegacy       = "jenkins-x.io/skip.tls"
	tlsSecretOwn        = ownPrefix + "tls-secret"
	urlPathOwn          = ownPrefix + "url-path"
	urlPathLegacy       = "api.service.kubernetes.io/path"
	ingressClassOwn     = ownPrefix + "ingress-class"
	gatewayOwn          = ownPrefix + "gateway"
)

// legacyNames are exposecontroller's annotations of a Service. A host that is written to one of them could change the host.
var legacyNames = []string{
	askLegacy, askInject, ingressNameLegacy, hostNameLegacy, pathLegacy, pathModeLegacy, portLegacy, internalLegacy,
	annotationsLegacy, hostAnnotationOther, skipTLSLegacy, urlPathLegacy, urlLegacy, legacyRewrite,
}

// What the operator writes.
const (
	// urlOwn and urlLegacy are the annotations of a Service that hold its URL.
	urlOwn    = ownPrefix + "url"
	urlLegacy = "fabric8.io/exposeUrl"
	// previousType is the annotation of a Service that holds the type that it had before the operator set another.
	previousType = ownPrefix + "previous-type"
	// mark is the annotation of an Ingress or HTTPRoute that the operator made. It holds the namespace and the name, so that
	// a copy under another name does not pass for the operator's.
	mark = ownPrefix + "made-for"
	// injected is the annotation of a ConfigMap that holds, as JSON, the keys that the operator set and the values that they
	// had before.
	injected = ownPrefix + "injected"
	// classAnnotation names the class of an Ingress in the way of before there was a field for it.
	classAnnotation = "kubernetes.io/ingress.class"
	// managedByLabel has FieldOwner as its value on what the operator made.
	managedByLabel = "app.kubernetes.io/managed-by"
)

// The configuration's ConfigMap, and its key.
const (
	configName = "exposecontroller"
	configKey  = "config.yml"
)

// externalIP marks a Node as the one that is reached from outside: as an annotation it holds the address, as a label it is
// "true".
const externalIP = "fabric8.io/externalIP"

// Exposers, as the configuration and Services name them, in lower case.
const (
	exposerAuto         = "auto"
	exposerIngress      = "ingress"
	exposerRoute        = "httproute"
	exposerNodePort     = "nodeport"
	exposerLoadBalancer = "loadbalancer"
)
