package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/client"
	"github.com/setpoint-dev/setpoint/finalizer"
)

// Outcome says how a run goes on after a step that did not fail.
type Outcome time.Duration

const (
	// Continue goes on with the next step. It is the zero value.
	Continue Outcome = 0
	// Stop ends the run until something changes.
	Stop Outcome = -1
)

// After ends the run and plans the next one after that time, which if not positive is as soon as
// possible.
func After(d time.Duration) Outcome { return Outcome(max(d, 1)) }

// Progress says how the steps before a [Last] step ended.
type Progress struct {
	Step    string  // the step that ended the run; empty: all were done
	Outcome Outcome // what it returned
	Err     error   // what it failed with
}

// Done reports whether all steps were done.
func (p Progress) Done() bool { return p.Step == "" }

// Step is one step of a reconcile of objects of type T. It is made by [Do], [Finalizer] or [Last].
type Step[T client.Object] struct {
	name     string
	alive    func(context.Context, T) (Outcome, error) // of a Do or Finalizer step
	deleting func(context.Context, T) (Outcome, error) // of a Finalizer step
	last     func(context.Context, T, Progress) error  // of a Last step
}

// Do is a step that runs while the object is not being deleted. The name is used in errors and in
// [Progress].
func Do[T client.Object](name string, do func(context.Context, T) (Outcome, error)) Step[T] {
	return Step[T]{name: name, alive: do}
}

// Finalizer is a step that adds the finalizer while the object is not being deleted. Once it is,
// and has the finalizer, the step runs cleanup and, after that returned Continue, removes the
// finalizer. A cleanup that is not done returns Stop or After.
func Finalizer[T client.Object](c *client.Client, name string, cleanup func(context.Context, T) (Outcome, error)) Step[T] {
	return Step[T]{
		name: "finalizer " + name,
		alive: func(ctx context.Context, obj T) (Outcome, error) {
			_, err := finalizer.Ensure(ctx, c, obj, name)
			return Continue, err
		},
		deleting: func(ctx context.Context, obj T) (Outcome, error) {
			if !finalizer.Has(obj, name) {
				return Continue, nil
			}
			if outcome, err := cleanup(ctx, obj); err != nil || outcome != Continue {
				return outcome, err
			}
			return Continue, finalizer.Remove(ctx, c, obj, name)
		},
	}
}

// Last is a step that runs after all others, however those ended: for the status. It is told how
// they ended, and its error joins theirs.
func Last[T client.Object](name string, do func(context.Context, T, Progress) error) Step[T] {
	return Step[T]{name: name, last: do}
}

// Run runs the steps. Its result is that of the step that ended it.
func Run[T client.Object](ctx context.Context, obj T, steps ...Step[T]) (setpoint.Result, error) {
	if err := check(steps); err != nil {
		return setpoint.Result{}, err
	}
	ended := run(ctx, obj, steps)
	err := ended.Err
	if last := runLast(ctx, obj, steps, ended); last != nil {
		if setpoint.IsTerminal(err) {
			// What the last steps failed at is to be tried again.
			err = errors.New(err.Error())
		}
		err = errors.Join(err, last)
	}
	if err != nil {
		return setpoint.Result{}, err
	}
	return setpoint.Result{RequeueAfter: time.Duration(max(ended.Outcome, 0))}, nil
}

// run runs all but the last steps.
func run[T client.Object](ctx context.Context, obj T, steps []Step[T]) Progress {
	deleting := obj.GetDeletionTimestamp() != nil
	for _, step := range steps {
		do := step.alive
		if deleting {
			do = step.deleting
		}
		if do == nil {
			continue
		}
		outcome, err := do(ctx, obj)
		if err != nil {
			return Progress{Step: step.name, Err: fmt.Errorf("step %q: %w", step.name, err)}
		}
		if outcome != Continue {
			return Progress{Step: step.name, Outcome: outcome}
		}
	}
	return Progress{}
}

// runLast runs the last steps, unless nothing keeps the deleted object any more.
func runLast[T client.Object](ctx context.Context, obj T, steps []Step[T], ended Progress) error {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		return nil
	}
	var errs []error
	for _, step := range steps {
		if step.last == nil {
			continue
		}
		if err := step.last(ctx, obj, ended); err != nil {
			errs = append(errs, fmt.Errorf("step %q: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// check finds a finalizer that could come too late.
func check[T client.Object](steps []Step[T]) error {
	effect := ""
	for _, step := range steps {
		switch {
		case step.deleting != nil && effect != "":
			return setpoint.Terminal(fmt.Errorf(
				"steps: %s comes after step %q, whose effect it could come too late to clean up: put it first", step.name, effect))
		case step.deleting == nil && step.last == nil && effect == "":
			effect = step.name
		}
	}
	return nil
}
