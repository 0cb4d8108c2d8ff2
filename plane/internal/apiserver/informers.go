package apiserver

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// newInformers makes the informers of authorization, admission and the allocators, and
// of the controllers and nodes that run beside the server. None of them looks at
// managedFields. They do not resync: their handlers retry what fails.
func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(dropManagedFields))
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
