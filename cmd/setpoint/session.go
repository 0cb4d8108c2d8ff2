package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/operators/catalog"
	"github.com/setpoint-dev/setpoint/plane"
	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/telemetry"
)

const (
	// startLimit bounds every step until the plane is ready, so that a plane that cannot start says so.
	startLimit = 2 * time.Minute
	// stopLimit bounds the stop: nothing that is still under way then is worth waiting for, since all is in memory.
	stopLimit = 800 * time.Millisecond
)

// session is one run of `setpoint up`.
type session struct {
	options   upOptions
	streams   streams
	screen    screen
	logger    *slog.Logger
	began     time.Time
	operators []catalog.Operator
	managers  []*setpoint.Manager // of the operators, in the same order
	webhooks  webhooks
	debug     *debugServer // nil without operators

	plane   *plane.Plane
	record  record
	config  *rest.Config // reaches the plane in this process
	client  *http.Client
	applier *applier

	running sync.WaitGroup // operators
	fail    context.CancelCauseFunc
}

// up runs a plane until ctx ends.
func up(ctx context.Context, o upOptions, s streams) (err error) {
	began := time.Now()
	manifests, err := readManifests(ctx, o.files, s.in)
	if ctx.Err() != nil {
		return nil // whoever interrupts gets what was asked for
	}
	if err != nil {
		return err
	}
	operators, err := selectOperators(o.shipped, o.operators)
	if err != nil {
		return err
	}
	if err := replaceable(o.kubeconfig); err != nil {
		return err
	}
	interrupted := ctx
	ctx, fail := context.WithCancelCause(ctx)
	u := &session{
		options: o, streams: s, screen: newScreen(s.out), logger: quiet(o.verbose, s.err),
		began: began, operators: operators, fail: fail,
	}
	defer func() {
		fail(nil)
		err = errors.Join(err, u.stop())
		if interrupted.Err() != nil && err != nil {
			u.logger.Warn("interrupted", "meanwhile", err)
			err = nil
		}
	}()
	if err := u.start(ctx); err != nil {
		return err
	}
	u.runOperators(ctx)
	if !o.wait {
		u.ready()
	}
	if err := u.applyAndShow(ctx, manifests); err != nil {
		return err
	}
	if o.wait {
		u.ready()
	}
	u.goOn(manifests)
	debug.FreeOSMemory() // the start needed much that nothing needs again
	<-ctx.Done()
	return context.Cause(ctx)
}

// quiet returns the logger of everything in this process, which keeps silent unless asked, and makes the loggers that
// are global to the process write to it, too.
func quiet(verbose bool, to io.Writer) *slog.Logger {
	logger := slog.New(slog.DiscardHandler)
	if verbose {
		logger = slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	klog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelInfo).Writer())
	return logger
}

// start brings the plane up with the operators' kinds, and makes it known.
func (u *session) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the plane was not ready within %s", startLimit))
	defer cancel()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"starting the control plane", u.startPlane},
		{"installing the operators' kinds and rights", u.installOperators},
		{"preparing the operators", u.makeManagers},
		{"writing the kubeconfig", u.publish},
	} {
		at := time.Now()
		u.screen.step(step.what)
		if err := step.do(ctx); err != nil {
			if ctx.Err() != nil {
				err = errors.Join(err, context.Cause(ctx))
			}
			return fmt.Errorf("%s: %w", step.what, err)
		}
		u.logger.Info("done", "step", step.what, "took", time.Since(at))
	}
	u.screen.step("")
	return nil
}

func (u *session) startPlane(ctx context.Context) (err error) {
	if u.record.dir, err = newRecordDir(u.began); err != nil {
		return err
	}
	config := plane.Config{
		Listen: u.options.listen,
		Nodes:  node.Config{Count: u.options.nodes, NoScheduler: u.options.node == "none"},
		Logger: u.logger.With("part", "plane"),
	}
	for _, o := range u.operators {
		if o.Replaces != "" {
			config.Controllers = append(config.Controllers, "-"+o.Replaces)
		}
	}
	if u.plane, err = plane.New(config); err != nil {
		return err
	}
	// The start looks at ctx now and then only. Who interrupts it does not wait; stop does, within its limit.
	started := make(chan error, 1)
	go func() { started <- u.plane.Start(ctx) }()
	select {
	case err = <-started:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	u.record.Address = u.plane.Address()
	u.config = rest.CopyConfig(u.plane.RESTConfig())
	u.config.UserAgent = "setpoint-up/" + ownVersion()
	if u.client, err = rest.HTTPClientFor(u.config); err != nil {
		return err
	}
	u.applier, err = newApplier(u.config, u.client)
	return err
}

// publish writes the plane's kubeconfig where it was asked for, else beside the plane's record, and then the record.
func (u *session) publish(context.Context) error {
	data, err := u.plane.Kubeconfig()
	if err != nil {
		return err
	}
	u.record.Kubeconfig = filepath.Join(u.record.dir, "kubeconfig")
	if u.options.kubeconfig != "" {
		if u.record.Kubeconfig, err = filepath.Abs(u.options.kubeconfig); err != nil {
			return err
		}
	}
	if err := writeFile(u.record.Kubeconfig, data); err != nil {
		return err
	}
	return u.record.write()
}

// installOperators applies what the operators need at the server: their kinds, their ServiceAccounts and their rights.
func (u *session) installOperators(ctx context.Context) error {
	if err := u.webhooks.listen(u.operators); err != nil {
		return err
	}
	var needed []manifest
	for _, o := range u.operators {
		documents, err := o.Requirements(u.webhooks.url(o.Name), u.webhooks.ca)
		if err != nil {
			return err
		}
		for _, document := range documents {
			found, err := decodeManifests("operator "+o.Name, []byte(document))
			if err != nil {
				return err
			}
			needed = append(needed, found...)
		}
	}
	if len(u.operators) > 0 {
		found, err := decodeManifests("the debug endpoints", []byte(debugRights))
		if err != nil {
			return err
		}
		needed = append(needed, found...)
	}
	return u.applier.apply(ctx, needed, func(*unstructured.Unstructured, bool) {})
}

// runOperators runs the operators until ctx ends. One that fails ends the session.
func (u *session) runOperators(ctx context.Context) {
	for i, o := range u.operators {
		u.running.Go(func() {
			if err := u.managers[i].Run(ctx); err != nil {
				u.fail(fmt.Errorf("operator %s: %w", o.Name, err))
			}
		})
	}
	if u.debug != nil {
		u.running.Go(func() {
			if err := telemetry.Serve(ctx, u.debug.listener, u.debug.handler, u.logger); err != nil {
				u.fail(fmt.Errorf("serving the debug endpoints: %w", err))
			}
		})
	}
}

// ready prints the one line that programs wait for.
func (u *session) ready() {
	fmt.Fprintf(u.streams.out, "ready in %d ms: https://%s, kubeconfig %s\n",
		time.Since(u.began).Milliseconds(), u.record.Address, u.record.Kubeconfig)
}

// stop ends everything, within stopLimit.
func (u *session) stop() error {
	var err error
	if u.record.dir != "" {
		err = os.RemoveAll(u.record.dir) // first, so that no command finds the plane any more
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		u.running.Wait()
		u.webhooks.close() // also when they were never served
		if u.debug != nil {
			u.debug.listener.Close()
		}
		if u.plane != nil {
			u.plane.Stop()
		}
	}()
	select {
	case <-stopped:
	case <-time.After(stopLimit):
		u.logger.Warn("not everything stopped in time", "limit", stopLimit)
	}
	return err
}
