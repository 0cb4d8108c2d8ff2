package reload

// Annotations on a workload, or, when the workload has none of those that select sources, on its Pod template.
const (
	// Auto follows the ConfigMaps and Secrets that the Pod template refers to: "true", "configmaps", "secrets", "frozen"
	// (only what running Pods never see change: environment variables and subPath mounts) or "false".
	Auto = "reload.setpoint.dev/auto"
	// ConfigMaps and Secrets follow sources by name: a list, separated by commas, of names and regular expressions.
	ConfigMaps = "reload.setpoint.dev/configmaps"
	Secrets    = "reload.setpoint.dev/secrets"
	// ExcludeConfigMaps and ExcludeSecrets leave sources out, whatever else selects them.
	ExcludeConfigMaps = "reload.setpoint.dev/exclude-configmaps"
	ExcludeSecrets    = "reload.setpoint.dev/exclude-secrets"
	// Search, "true", follows those sources that the Pod template refers to and that carry Match.
	Search = "reload.setpoint.dev/search"
	// Ignore, "true", on a workload or on a source: nothing rolls because of it.
	Ignore = "reload.setpoint.dev/ignore"
	// OnCreate and OnDelete, "true" or "false", say whether the creation and the deletion of a source roll the workload.
	OnCreate = "reload.setpoint.dev/on-create"
	OnDelete = "reload.setpoint.dev/on-delete"
	// Window is how long further changes are waited for after the first one, such as "30s".
	Window = "reload.setpoint.dev/window"
	// PausePeriod is the shortest time between two rollouts of the workload, such as "5m".
	PausePeriod = "reload.setpoint.dev/pause-period"
	// RolloutStrategy of an Argo Rollout: "rollout" stamps the template, "restart" sets spec.restartAt.
	RolloutStrategy = "reload.setpoint.dev/rollout-strategy"
	// RunNow, "true", on a CronJob starts a Job at once after a change instead of at the next time of its schedule.
	RunNow = "reload.setpoint.dev/run-now"
	// Rerun, "true", on a Job replaces it after a change when it is finished.
	Rerun = "reload.setpoint.dev/rerun"
)

// Match, "true", on a ConfigMap or Secret makes workloads with Search follow it.
const Match = "reload.setpoint.dev/match"

// Annotations that the operator writes, as the owner of these fields alone.
const (
	// State on a workload is what its Pods were last rolled for; see the package comment.
	State = "reload.setpoint.dev/state"
	// Stamp on a Pod template changes when the workload is rolled, and at no other time.
	Stamp = "reload.setpoint.dev/stamp"
)

// digestAnnotation carries the digest of a source's content in the cache, in place of the content. It is never written
// to the server.
const digestAnnotation = "reload.setpoint.dev/digest"

// Annotations of configmapcontroller and of Reloader that are understood, too.
const (
	fabric8Update = "configmap.fabric8.io/update-on-change"

	reloaderAuto          = "reloader.stakater.com/auto"
	reloaderSearch        = "reloader.stakater.com/search"
	reloaderMatch         = "reloader.stakater.com/match"
	reloaderIgnore        = "reloader.stakater.com/ignore"
	reloaderStrategy      = "reloader.stakater.com/rollout-strategy"
	reloaderPause         = "deployment.reloader.stakater.com/pause-period"
	reloaderConfigMapAuto = "configmap.reloader.stakater.com/auto"
	reloaderConfigMaps    = "configmap.reloader.stakater.com/reload"
	reloaderNoConfigMaps  = "configmaps.exclude.reloader.stakater.com/reload"
	reloaderSecretAuto    = "secret.reloader.stakater.com/auto"
	reloaderSecrets       = "secret.reloader.stakater.com/reload"
	reloaderNoSecrets     = "secrets.exclude.reloader.stakater.com/reload"
	reloaderCSIAuto       = "secretproviderclass.reloader.stakater.com/auto"
	reloaderCSI           = "secretproviderclass.reloader.stakater.com/reload"
)
