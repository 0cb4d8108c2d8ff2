package workload

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	// collectors is how many deletions run at once. Large trees are what takes time.
	collectors = 10
	// firstCollection bounds how long the collector waits for the informers of all
	// resources before it begins with those it has.
	firstCollection = 30 * time.Second
)

func buildGarbageCollector(ctx context.Context, e *environment) ([]loop, error) {
	const name = "generic-garbage-collector"
	client, err := e.client(name)
	if err != nil {
		return nil, err
	}
	metadataClient, err := e.metadataClient(name)
	if err != nil {
		return nil, err
	}
	// Events own nothing and are never owned; watching them would be for nothing.
	ignored := map[schema.GroupResource]struct{}{
		{Resource: "events"}:                         {},
		{Group: "events.k8s.io", Resource: "events"}: {},
	}
	// The informers start with all others, so that the collector finds them synced.
	for resource := range e.resources.deletable() {
		if _, ok := ignored[resource.GroupResource()]; !ok {
			if _, err := e.monitors.ForResource(resource); err != nil {
				return nil, err
			}
		}
	}
	c, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, e.resources, ignored, e.monitors, e.informersStarted)
	if err != nil {
		return nil, err
	}
	follow := e.resources.follow(ctx)
	return []loop{
		func(ctx context.Context) { c.Run(ctx, collectors, firstCollection) },
		func(ctx context.Context) { c.Sync(ctx, follow, followPeriod) },
	}, nil
}
