package apitest

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discover answers the paths of the older, not aggregated discovery.
func (s *Server) discover(path string) (any, error) {
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); {
	case path == "/version":
		return map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.2"}, nil
	case path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case path == "/apis":
		return s.groups(), nil
	case parts[0] == "api" && len(parts) == 2:
		return s.resources(schema.GroupVersion{Version: parts[1]}), nil
	case parts[0] == "apis" && len(parts) == 3:
		return s.resources(schema.GroupVersion{Group: parts[1], Version: parts[2]}), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
}

func (s *Server) groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	seen := map[string]bool{"": true}
	for _, kind := range s.kinds {
		if seen[kind.Group] {
			continue
		}
		seen[kind.Group] = true
		version := metav1.GroupVersionForDiscovery{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: kind.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return list
}

func (s *Server) resources(gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for _, kind := range s.kinds {
		if kind.GroupVersion() == gv {
			verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
			list.APIResources = append(list.APIResources,
				metav1.APIResource{Name: kind.Resource, SingularName: strings.ToLower(kind.Kind), Namespaced: !kind.ClusterScoped, Kind: kind.Kind, Verbs: verbs},
				metav1.APIResource{Name: kind.Resource + "/status", Namespaced: !kind.ClusterScoped, Kind: kind.Kind, Verbs: metav1.Verbs{"get", "patch", "update"}})
		}
	}
	return list
}
