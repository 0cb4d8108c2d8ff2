package warm

import (
	_ "k8s.io/apiextensions-apiserver/pkg/apiserver"
	_ "k8s.io/kube-aggregator/pkg/apiserver"
	_ "k8s.io/kubernetes/pkg/controlplane"
	_ "k8s.io/kubernetes/pkg/controller/garbagecollector"
	_ "k8s.io/kubernetes/pkg/controller/deployment"
	_ "k8s.io/kubernetes/pkg/controller/statefulset"
	_ "k8s.io/kubernetes/pkg/controller/daemon"
	_ "k8s.io/kubernetes/pkg/controller/job"
	_ "k8s.io/kubernetes/pkg/controller/cronjob"
	_ "k8s.io/kubernetes/pkg/controller/endpoint"
	_ "k8s.io/kubernetes/pkg/controller/endpointslice"
	_ "k8s.io/kubernetes/pkg/controller/disruption"
	_ "k8s.io/kubernetes/pkg/controller/resourcequota"
	_ "k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	_ "k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	_ "k8s.io/kubernetes/pkg/controller/namespace"
	_ "k8s.io/kubernetes/pkg/controlplane/apiserver"
	_ "k8s.io/apiserver/pkg/storage/testing"
)
