//go:build never

// Package pins names one package of every staging module of Kubernetes, so that
// "go mod tidy" keeps their versions in go.mod: k8s.io/kubernetes asks for all
// of them at v0.0.0, which no proxy has, and "go list -m all" needs an answer.
package pins

import (
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "k8s.io/apimachinery/pkg/types"
	_ "k8s.io/apiserver/pkg/storage"
	_ "k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/rest"
	_ "k8s.io/cloud-provider/api"
	_ "k8s.io/cluster-bootstrap/token/api"
	_ "k8s.io/code-generator/pkg/namer"
	_ "k8s.io/component-base/version"
	_ "k8s.io/component-helpers/resource"
	_ "k8s.io/controller-manager/controller"
	_ "k8s.io/cri-api/pkg/errors"
	_ "k8s.io/cri-client/pkg"
	_ "k8s.io/cri-streaming/pkg/streaming"
	_ "k8s.io/csi-translation-lib/plugins"
	_ "k8s.io/dynamic-resource-allocation/cel"
	_ "k8s.io/endpointslice/util"
	_ "k8s.io/externaljwt/apis/v1"
	_ "k8s.io/kms/pkg/util"
	_ "k8s.io/kube-aggregator/pkg/apis/apiregistration"
	_ "k8s.io/kube-controller-manager/config/v1alpha1"
	_ "k8s.io/kube-proxy/config/v1alpha1"
	_ "k8s.io/kube-scheduler/config/v1"
	_ "k8s.io/kubectl/pkg/cmd/version"
	_ "k8s.io/kubelet/config/v1beta1"
	_ "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	_ "k8s.io/mount-utils"
	_ "k8s.io/pod-security-admission/api"
	_ "k8s.io/sample-apiserver/pkg/apis/wardle/v1alpha1"
	_ "k8s.io/streaming/pkg/httpstream"
)
