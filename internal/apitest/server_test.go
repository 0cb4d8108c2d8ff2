package apitest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch from the revision of a listing tells of what was deleted in between: whoever lists and then watches is
// left with no phantom.
func TestBug141529DeletedBetweenListAndWatch(t *testing.T) {
	s := New(ConfigMaps)
	for _, name := range []string{"a", "b"} {
		Put(s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	get := func(query string) *bufio.Scanner {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://apitest/api/v1/configmaps"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return bufio.NewScanner(resp.Body)
	}
	listing := get("")
	listing.Scan()
	var list corev1.ConfigMapList
	if err := json.Unmarshal(listing.Bytes(), &list); err != nil || len(list.Items) != 2 {
		t.Fatalf("listed %d: %v", len(list.Items), err)
	}
	s.Delete(&list.Items[0])
	events := get("?watch=true&resourceVersion=" + list.ResourceVersion)
	if !events.Scan() || !strings.Contains(events.Text(), `"DELETED"`) || !strings.Contains(events.Text(), `"name":"a"`) {
		t.Errorf("the watch began with %q, want the deletion of a", events.Text())
	}
}
