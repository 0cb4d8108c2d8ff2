package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// resync is how often informers hand all objects to their handlers again.
const resync = 10 * time.Minute

// newInformers makes the informers of authorization, admission and the allocators.
// None of them looks at managedFields.
func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(dropManagedFields))
}

func dropManagedFields(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

// requestEarly names the informers that have to be synced before their users are
// made: admission of policies and the allocator of ClusterIPs.
func requestEarly(shared informers.SharedInformerFactory) {
	shared.Core().V1().Namespaces().Informer()
	policies := shared.Admissionregistration().V1()
	policies.ValidatingAdmissionPolicies().Informer()
	policies.ValidatingAdmissionPolicyBindings().Informer()
	policies.MutatingAdmissionPolicies().Informer()
	policies.MutatingAdmissionPolicyBindings().Informer()
	shared.Networking().V1().ServiceCIDRs().Informer()
	shared.Networking().V1().IPAddresses().Informer()
}
