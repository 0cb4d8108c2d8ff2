package setpoint

import (
	_ "github.com/go-logr/logr"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/util/managedfields"
	_ "k8s.io/apimachinery/pkg/util/resourceversion"
	_ "k8s.io/client-go/discovery/cached/memory"
	_ "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/client-go/restmapper"
	_ "k8s.io/client-go/tools/clientcmd"
	_ "github.com/google/go-cmp/cmp"
	_ "go.uber.org/goleak"
	_ "sigs.k8s.io/yaml"
)
