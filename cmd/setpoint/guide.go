package main

import (
	"fmt"
	"os"
	"strings"
)

// goOn prints what to type next.
func (u *session) goOn(manifests []manifest) {
	kubectl := os.Args[0] + " kubectl"
	if os.Getenv("KUBECONFIG") != "" {
		kubectl += " --kubeconfig " + quote(u.record.Kubeconfig) // else the cluster in the environment would be meant
	}
	fmt.Fprintf(u.streams.out, "\nGo on in another terminal:\n\n")
	for _, line := range suggestions(manifests) {
		fmt.Fprintf(u.streams.out, "  %s %s\n", kubectl, line)
	}
	fmt.Fprintf(u.streams.out, "\nor with a kubectl of your own, after\n\n  export KUBECONFIG=%s\n\nInterrupt with Ctrl-C to stop; nothing is kept.\n",
		quote(u.record.Kubeconfig))
}

// suggestions are kubectl command lines that make sense for what was applied.
func suggestions(manifests []manifest) []string {
	for _, m := range manifests {
		o := m.object
		if o.GroupVersionKind().GroupKind().String() != "Foo.sample.setpoint.dev" {
			continue
		}
		ns := ""
		if o.GetNamespace() != "default" && o.GetNamespace() != "" {
			ns = "-n " + o.GetNamespace() + " "
		}
		return []string{
			ns + "get foos,deployments,pods",
			ns + "scale foo/" + o.GetName() + " --replicas=5",
			ns + "describe foo/" + o.GetName(),
			ns + "delete deployment --all",
			"explain foo.spec",
		}
	}
	return []string{"get nodes", "create deployment web --image=nginx --replicas=3", "get deployments,pods"}
}

// quote makes a word that the shell takes as it is.
func quote(s string) string {
	if !strings.ContainsAny(s, " \t\n'\"\\$&;()<>|*?[]#~`!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
