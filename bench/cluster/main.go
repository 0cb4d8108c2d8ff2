// Command cluster runs another command beside a real etcd and kube-apiserver, with the plane's controllers and a fake node
// at work on them, and tells it the cluster's kubeconfig in the environment variable SETPOINT_TEST_KUBECONFIG:
//
//	go run ./bench/cluster go test ./test
//
// Both servers are built from their modules the first time, which takes about ten minutes on two cores.
package main

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/setpoint-dev/setpoint/bench/servers"
	"github.com/setpoint-dev/setpoint/plane/node"
	"github.com/setpoint-dev/setpoint/plane/workload"
)

// variable is where the command finds the path of the kubeconfig.
const variable = "SETPOINT_TEST_KUBECONFIG"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: cluster COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) error {
	peer, err := servers.Build(ctx, "plane/go.mod", os.Stderr)
	if err != nil {
		return err
	}
	return peer.Run(ctx, func(config *rest.Config, certificate []byte, tokenKey crypto.Signer) error {
		ctx, cancel := context.WithCancel(ctx)
		logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
		controllers, err := workload.Start(ctx, workload.Config{REST: config, RootCA: certificate, TokenKey: tokenKey, Logger: logger})
		if err != nil {
			cancel()
			return err
		}
		defer controllers.Wait()
		defer cancel() // before the wait
		nodes, err := node.Start(ctx, node.Config{REST: config, Logger: logger})
		if err != nil {
			return err
		}
		defer nodes.Wait()
		defer cancel()
		for _, synced := range []<-chan struct{}{controllers.Synced(), nodes.Synced()} {
			select {
			case <-synced:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return execute(ctx, command, config)
	})
}

// execute runs the command with a kubeconfig of the cluster.
func execute(ctx context.Context, command []string, config *rest.Config) (err error) {
	dir, err := os.MkdirTemp("", "setpoint-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"peer": {Server: config.Host, InsecureSkipTLSVerify: config.Insecure}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"peer": {Cluster: "peer", AuthInfo: "admin"}},
		CurrentContext: "peer",
	}, path)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
