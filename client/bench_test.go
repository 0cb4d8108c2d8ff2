package client_test

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/cache"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/internal/apitest"
)

// BenchmarkCachedGet compares a cached read through the client with the cache's own.
func BenchmarkCachedGet(b *testing.B) {
	server := apitest.New(apitest.ConfigMaps)
	config, transport := &rest.Config{Host: "http://server.test"}, &http.Client{Transport: server}
	apitest.Put(server, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	mapper, err := client.NewMapper(config, transport)
	if err != nil {
		b.Fatal(err)
	}
	store, err := cache.New(cache.Config{REST: config, HTTP: transport, Mapper: mapper})
	if err != nil {
		b.Fatal(err)
	}
	c, err := client.New(client.Config{REST: config, HTTP: transport, Mapper: mapper, Cache: store})
	if err != nil {
		b.Fatal(err)
	}
	watch, err := store.Watch(configMaps, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = store.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	if err := watch.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	name, obj := key("default", "web"), &corev1.ConfigMap{}
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Get(ctx, name, obj); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cache", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := store.Get(ctx, configMaps, name, obj); err != nil {
				b.Fatal(err)
			}
		}
	})
}
