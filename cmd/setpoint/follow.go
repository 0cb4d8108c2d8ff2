package main

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/cache"
)

// applyAndShow applies manifests and shows what becomes of them until they are ready.
func (u *session) applyAndShow(ctx context.Context, manifests []manifest) error {
	if len(manifests) == 0 {
		return nil
	}
	// Everything is watched unstructured, whether its type is known or not.
	objects, err := cache.New(cache.Config{REST: u.config, HTTP: u.client, Scheme: runtime.NewScheme(), Mapper: u.applier.mapper, Logger: u.logger})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer func() {
		cancel(nil)
		running.Wait()
	}()
	t := newTracker()
	watched := map[schema.GroupVersionKind]bool{}
	follow := func(gvk schema.GroupVersionKind) {
		if watched[gvk] {
			return
		}
		watched[gvk] = true
		if _, err := objects.Watch(gvk, t.observe); err != nil {
			cancel(fmt.Errorf("watching %s: %w", gvk.Kind, err))
		}
	}
	for _, gvk := range madeKinds() {
		follow(gvk)
	}
	running.Go(func() {
		if err := objects.Run(ctx); err != nil {
			cancel(fmt.Errorf("watching what was applied: %w", err))
		}
	})
	err = u.applier.apply(ctx, manifests, func(o *unstructured.Unstructured, reported bool) {
		t.add(o, reported)
		follow(o.GroupVersionKind())
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return converge(ctx, t, u.screen)
}

// madeKinds are the kinds that controllers make of others and that people want to see come up.
func madeKinds() []schema.GroupVersionKind {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return []schema.GroupVersionKind{
		apps.WithKind("Deployment"), apps.WithKind("ReplicaSet"), apps.WithKind("StatefulSet"), apps.WithKind("DaemonSet"),
		{Group: "batch", Version: "v1", Kind: "Job"},
		{Version: "v1", Kind: "Pod"},
	}
}
