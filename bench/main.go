// Command bench measures Setpoint beside its peers, in one run on one machine doing the same work, and prints the figures
// as a table. It is run from the root of the repository: `make bench`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/setpoint-dev/setpoint/bench/cached"
	"github.com/setpoint-dev/setpoint/bench/edit"
	"github.com/setpoint-dev/setpoint/bench/pipeline"
	"github.com/setpoint-dev/setpoint/bench/queue"
	"github.com/setpoint-dev/setpoint/bench/replicaset"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/servers"
)

// pods is how many Pods, and custom resources, the caches hold.
const pods = 10_000

// options are the flags.
type options struct {
	only            *regexp.Regexp
	out             string
	setpoint        string
	noKubeAPIServer bool
}

// part is a group of figures that is measured at once.
type part struct {
	name    string
	measure func(context.Context) ([]report.Result, error)
}

func parts(o options) []part {
	one := func(r report.Result, err error) ([]report.Result, error) { return []report.Result{r}, err }
	return []part{
		{"servers", func(ctx context.Context) ([]report.Result, error) { return measureServers(ctx, o) }},
		{"queue", measureQueue},
		{"cache", func(ctx context.Context) ([]report.Result, error) { return cached.Measure(ctx, pods) }},
		{"cache-read-cr", func(ctx context.Context) ([]report.Result, error) { return one(cached.MeasureCustom(ctx, pods)) }},
		{"cache-scale", func(ctx context.Context) ([]report.Result, error) {
			return cached.MeasureScale(ctx, 100_000, 1_000_000)
		}},
		{"sync-10k-pods", func(ctx context.Context) ([]report.Result, error) { return one(pipeline.MeasureSync(ctx, pods)) }},
		{"event-latency", func(ctx context.Context) ([]report.Result, error) { return one(pipeline.MeasureLatency(ctx, 1000, 5)) }},
		{"replicaset", func(ctx context.Context) ([]report.Result, error) { return replicaset.Measure(ctx, 500) }},
		{"test-edit-run", func(ctx context.Context) ([]report.Result, error) { return measureEdit(ctx, o) }},
	}
}

func main() {
	var o options
	only := flag.String("only", "", "measure only the parts whose names match this `pattern`")
	flag.StringVar(&o.out, "out", "bench/out/results.json", "where to write the figures")
	flag.StringVar(&o.setpoint, "setpoint", "bin/setpoint", "the command, as `make build` makes it")
	flag.BoolVar(&o.noKubeAPIServer, "no-kube-apiserver", false, "leave out etcd and kube-apiserver, whose first build takes about ten minutes on two cores")
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	// What the servers and the peer log is not what is measured.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var results []report.Result
	for _, p := range parts(o) {
		if !o.only.MatchString(p.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", p.name)
		found, err := p.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		results = append(results, found...)
		runtime.GC()
	}
	fmt.Printf("%s, %d CPUs, %s/%s\n", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	if err := report.Table(os.Stdout, results); err != nil {
		return err
	}
	return report.Save(o.out, results)
}

func measureQueue(ctx context.Context) ([]report.Result, error) {
	found, err := queue.Measure(ctx, 3)
	if err != nil {
		return nil, err
	}
	var results []report.Result
	for _, f := range found {
		peer, ns := f.Peer()
		r := report.Cost(f.ID, "ns", f.Nanoseconds[queue.Ours]).Against(ns, fmt.Sprintf("add+get+done with %d queued; peer: %s", f.Queued, peer))
		switch f.ID {
		case "queue-1k":
			r = r.AtMost(300)
		case "queue-1m":
			r = r.AtLeastRatio(2)
		}
		results = append(results, r)
	}
	return results, nil
}

func measureServers(ctx context.Context, o options) ([]report.Result, error) {
	var peer *servers.Peer
	if !o.noKubeAPIServer {
		var err error
		if peer, err = servers.Build(ctx, "plane/go.mod", os.Stderr); err != nil {
			return nil, err
		}
	}
	return servers.Measure(ctx, o.setpoint, peer)
}

func measureEdit(ctx context.Context, o options) ([]report.Result, error) {
	const dir = "bench/edit"
	ours, err := edit.Measure(ctx, dir, "ours")
	if err != nil {
		return nil, err
	}
	r := report.Cost("test-edit-run", "ms", float64(ours.Milliseconds()))
	if !o.noKubeAPIServer {
		peer, err := servers.Build(ctx, "plane/go.mod", os.Stderr)
		if err != nil {
			return nil, err
		}
		theirs, err := edit.Measure(ctx, dir, "peer", "KUBEBUILDER_ASSETS="+peer.Dir())
		if err != nil {
			return nil, err
		}
		r = r.Against(float64(theirs.Milliseconds()), "one line of a test changed, compiled, linked, run; ours with all controllers; peer: envtest")
	}
	return []report.Result{r.AtLeastRatio(2)}, nil
}
