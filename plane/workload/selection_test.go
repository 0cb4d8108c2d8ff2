package workload

import (
	"slices"
	"strings"
	"testing"
)

func TestSelection(t *testing.T) {
	all := Names()
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
	}
	for _, test := range []struct{ wanted, want []string }{
		{nil, all},
		{[]string{"-replicaset"}, without("replicaset")},
		{[]string{"-job", "-cronjob"}, without("job", "cronjob")},
		{[]string{"namespace", "deployment"}, []string{"deployment", "namespace"}},
		{[]string{"namespace", "deployment", "-namespace"}, []string{"deployment"}},
	} {
		selected, err := selectControllers(test.wanted)
		if err != nil {
			t.Errorf("%v: %v", test.wanted, err)
		}
		var got []string
		for _, c := range selected {
			got = append(got, c.name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v selects %v, want %v", test.wanted, got, test.want)
		}
	}
}

func TestSelectionOfUnknownNames(t *testing.T) {
	_, err := selectControllers([]string{"deployments", "job", "-gc"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{`"deployments"`, `"gc"`, "garbage-collector", "validatingadmissionpolicy-status"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not contain %s: %v", part, err)
		}
	}
}

func TestNamesAreSorted(t *testing.T) {
	if names := Names(); !slices.IsSorted(names) {
		t.Errorf("names are not sorted: %v", names)
	}
}
