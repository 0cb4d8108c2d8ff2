package plane_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
)

// TestDiscoveryIsKubernetes compares aggregated discovery with the recording that
// comes with Kubernetes' source. It was made with everything switched on, so what is
// served is a part of it: all of what is stable.
func TestDiscoveryIsKubernetes(t *testing.T) {
	a := newAPI(t)
	recorded := resourcesOf(t, recording(t, "api/discovery/aggregated_v2.json"))
	raw, err := a.client.CoreV1().RESTClient().Get().AbsPath("/apis").
		SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served := resourcesOf(t, raw)
	maps.DeleteFunc(recorded, func(gv string, _ []string) bool {
		version := gv[strings.LastIndex(gv, "/")+1:]
		return strings.Contains(version, "alpha") || strings.Contains(version, "beta")
	})
	maps.DeleteFunc(served, func(gv string, _ []string) bool { return strings.HasPrefix(gv, "test.setpoint.dev/") })
	// Stable versions may have resources of features that are off.
	for gv, resources := range recorded {
		recorded[gv] = slices.DeleteFunc(resources, func(r string) bool { return featureOff[gv+" "+strings.Fields(r)[0]] })
	}
	if diff := cmp.Diff(recorded, served); diff != "" {
		t.Errorf("discovery differs from Kubernetes' (-recorded +served):\n%s", diff)
	}
}

// featureOff are resources whose feature gates are off by default.
var featureOff = map[string]bool{}

// resourcesOf lists, for each group and version, its resources with their scope and
// verbs.
func resourcesOf(t *testing.T, raw []byte) map[string][]string {
	t.Helper()
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, group := range list.Items {
		for _, version := range group.Versions {
			gv := group.Name + "/" + version.Version
			for _, r := range version.Resources {
				all[gv] = append(all[gv], fmt.Sprint(r.Resource, " ", r.Scope, " ", r.Verbs, " ", r.ShortNames))
				for _, s := range r.Subresources {
					all[gv] = append(all[gv], fmt.Sprint(r.Resource, "/", s.Subresource, " ", s.Verbs))
				}
			}
			slices.Sort(all[gv])
		}
	}
	return all
}

// TestOpenAPIIsComplete compares the index of OpenAPI v3, and one of its schemas,
// with the recording that comes with Kubernetes' source.
func TestOpenAPIIsComplete(t *testing.T) {
	a := newAPI(t)
	paths, err := a.client.Discovery().OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for _, gv := range []string{
		"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/rbac.authorization.k8s.io/v1",
		"apis/apiextensions.k8s.io/v1", "apis/apiregistration.k8s.io/v1", "version",
	} {
		if paths[gv] == nil {
			t.Errorf("OpenAPI v3 lacks %s", gv)
		}
	}
	raw, err := paths["apis/apps/v1"].Schema("application/json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schemasOf(t, recording(t, "api/openapi-spec/v3/apis__apps__v1_openapi.json")), schemasOf(t, raw)); diff != "" {
		t.Errorf("the schemas of apps/v1 differ from Kubernetes' (-recorded +served):\n%s", diff)
	}
}

// schemasOf lists the names of schemas with their properties.
func schemasOf(t *testing.T, raw []byte) map[string][]string {
	t.Helper()
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
		Paths map[string]any
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{"paths": slices.Sorted(maps.Keys(document.Paths))}
	for name, schema := range document.Components.Schemas {
		all[name] = slices.Sorted(maps.Keys(schema.Properties))
	}
	return all
}

// recording reads a file of the source of Kubernetes.
func recording(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
