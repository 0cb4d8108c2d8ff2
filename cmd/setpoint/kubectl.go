package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credentials of other clusters, as kubectl has them
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

func newKubectl(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl …",
		Short: "Upstream's kubectl, by default against the plane started last",
		Long: "Everything after 'kubectl' is understood as kubectl understands it. Without --kubeconfig and without\n" +
			"KUBECONFIG in the environment it talks to the plane that 'setpoint up' started last.",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return runKubectl(args, s) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completeKubectl(append(slices.Clone(args), toComplete), s)
		},
	}
}

// fatal carries what kubectl dies of out of its depths.
type fatal struct {
	message string
	code    int
}

// runKubectl runs one kubectl command line. What it reports goes to s; the error is an exitCode.
func runKubectl(args []string, s streams) (err error) {
	flags, handler, err := target(args)
	if err != nil {
		return err
	}
	// kubectl leaves by os.Exit wherever it fails; a panic lets this process clean up, and a test go on.
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(fatal{message, code}) })
	defer func() {
		switch died := recover().(type) {
		case nil:
		case fatal:
			if died.message != "" {
				fmt.Fprintln(s.err, strings.TrimSuffix(died.message, "\n"))
			}
			err = exitCode(died.code)
		default:
			panic(died)
		}
	}()
	line := append([]string{"kubectl"}, args...)
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(line)); err != nil {
		return fmt.Errorf("setting kubectl's verbosity: %w", err)
	}
	cmdutil.CheckErr(cli.RunNoErrOutput(kubectlCommand(line, flags, handler, s)))
	return nil
}

// kubectlCommand builds upstream's command for one command line that begins with "kubectl".
func kubectlCommand(line []string, flags *genericclioptions.ConfigFlags, handler kubectl.PluginHandler, s streams) *cobra.Command {
	cmd := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: handler,
		Arguments:     line,
		ConfigFlags:   flags,
		IOStreams:     genericiooptions.IOStreams{In: s.in, Out: s.out, ErrOut: s.err},
	})
	cmd.SetArgs(line[1:])
	cmd.SetIn(s.in)
	cmd.SetOut(s.out)
	cmd.SetErr(s.err)
	return cmd
}

// target says which cluster kubectl talks to by default, as defaults of its flags.
func target(args []string) (*genericclioptions.ConfigFlags, kubectl.PluginHandler, error) {
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	plugins := kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes)
	if os.Getenv("KUBECONFIG") != "" || namesKubeconfig(args) || !needsCluster(args) {
		return flags, plugins, nil
	}
	last, err := lastPlane()
	if err != nil {
		return nil, nil, err
	}
	cache := last.kubectlCache()
	flags.KubeConfig, flags.CacheDir = &last.Kubeconfig, &cache
	return flags, pluginHandler{plugins, last.Kubeconfig}, nil
}

// namesKubeconfig reports whether a kubectl command line says itself which kubeconfig to use.
func namesKubeconfig(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--kubeconfig" || strings.HasPrefix(a, "--kubeconfig=") {
			return true
		}
	}
	return false
}

// needsCluster reports whether a kubectl command line can be expected to talk to a cluster.
func needsCluster(args []string) bool {
	if len(args) == 0 || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return false
	}
	if slices.Contains(args, "--client") || slices.Contains(args, "--dry-run=client") {
		return false
	}
	return !slices.Contains([]string{"help", "completion", "config", "kustomize", "options", "plugin"}, args[0])
}

// pluginHandler hands the default cluster on to kubectl's plugins.
type pluginHandler struct {
	kubectl.PluginHandler
	kubeconfig string
}

// Execute runs a plugin, as the interface says.
func (h pluginHandler) Execute(path string, args, environment []string) error {
	return h.PluginHandler.Execute(path, args, append(slices.Clone(environment), "KUBECONFIG="+h.kubeconfig))
}

// completeKubectl asks kubectl's own completion. Without a running plane it still completes commands and flags.
func completeKubectl(args []string, s streams) ([]string, cobra.ShellCompDirective) {
	flags, _, err := target(args)
	if err != nil {
		flags = genericclioptions.NewConfigFlags(true)
	}
	var out, discarded bytes.Buffer
	line := append([]string{"kubectl", cobra.ShellCompRequestCmd}, args...)
	cmd := kubectlCommand(line, flags, nil, streams{in: s.in, out: &out, err: &discarded})
	if err := cmd.Execute(); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last, ok := strings.CutPrefix(lines[len(lines)-1], ":")
	directive, err := strconv.Atoi(last)
	if !ok || err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:len(lines)-1], cobra.ShellCompDirective(directive)
}
