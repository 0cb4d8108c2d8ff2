// Command operator runs the example operator of Databases against the cluster that kubectl would use.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/examples/database"
)

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, logger); err != nil {
		logger.Error("the operator ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, logger *slog.Logger) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), database.AddToScheme(scheme)); err != nil {
		return err
	}
	m, err := setpoint.NewManager(setpoint.Config{Scheme: scheme, Logger: logger, FieldOwner: "database-operator"})
	if err != nil {
		return err
	}
	database.Setup(m)
	return m.Run(ctx)
}
