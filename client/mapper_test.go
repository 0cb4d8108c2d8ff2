package client_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

var widgets = apitest.Kind{GroupVersionKind: widgetKind, Resource: "widgets"}

// newMapper returns a mapper on a server, and a function that counts the discoveries since it was last called.
func newMapper(t *testing.T, server *apitest.Server) (meta.RESTMapper, func() int) {
	t.Helper()
	config := &rest.Config{Host: "http://server.test"}
	m, err := client.NewMapper(config, &http.Client{Transport: server})
	must(t, err)
	return m, func() (n int) {
		for _, r := range server.Requests() {
			if r.Verb == "discover" {
				n++
			}
		}
		return n
	}
}

func TestMapperFindsKindsInstalledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		m, discoveries := newMapper(t, server)
		if _, err := m.RESTMapping(widgetKind.GroupKind(), "v1"); !meta.IsNoMatchError(err) {
			t.Fatalf("got %v", err)
		}
		server.Serve(widgets)
		mapping, err := m.RESTMapping(widgetKind.GroupKind(), "v1")
		must(t, err)
		if mapping.Resource.Resource != "widgets" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			t.Errorf("got %+v", mapping)
		}
		discoveries()
		for range 10 {
			if _, err := m.RESTMapping(widgetKind.GroupKind(), "v1"); err != nil {
				t.Error(err)
			}
		}
		if n := discoveries(); n != 0 {
			t.Errorf("a known kind was discovered %d times more", n)
		}
	})
}

func TestMissingKindDoesNotFloodTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		m, discoveries := newMapper(t, server)
		if _, err := m.RESTMapping(widgetKind.GroupKind(), "v1"); !meta.IsNoMatchError(err) {
			t.Fatal(err)
		}
		each := discoveries() / 2 // requests of one discovery: there was a first, and one after the reset
		for range 1000 {
			if _, err := m.RESTMapping(widgetKind.GroupKind(), "v1"); !meta.IsNoMatchError(err) {
				t.Fatal(err)
			}
		}
		if n := discoveries() / each; n > 25 {
			t.Errorf("1000 lookups of a kind that does not exist caused %d discoveries", n)
		}
		server.Serve(widgets)
		time.Sleep(time.Second)
		if _, err := m.RESTMapping(widgetKind.GroupKind(), "v1"); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}

func TestMissingKindIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.New(apitest.ConfigMaps)
		c, err := client.New(client.Config{REST: server.REST()})
		must(t, err)
		err = c.Get(t.Context(), key("default", "w"), widget("", ""))
		if !meta.IsNoMatchError(err) || !strings.Contains(err.Error(), "CustomResourceDefinition") {
			t.Errorf("got %v", err)
		}
	})
}

// A server that does not answer must not hold up whoever asks for a kind, without a context, for ever.
func TestDiscoveryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := transport(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		m, err := client.NewMapper(&rest.Config{Host: "http://server.test"}, &http.Client{Transport: silent})
		must(t, err)
		begin := time.Now()
		if _, err := m.RESTMapping(widgetKind.GroupKind(), "v1"); err == nil {
			t.Fatal("a kind was found that nobody told of")
		}
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("the lookup took %s", took)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
