package expose

import (
	"encoding/json"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Annotations of a ConfigMap.
const (
	// injectOwn holds lines of the form "KEY: SERVICE VALUE"; VALUE is one of values below, and may be left out.
	injectOwn = ownPrefix + "inject"
	// legacyPrefix begins those of exposecontroller in the ConfigMap of the Service's name, whose values are keys.
	legacyPrefix = "expose.config.fabric8.io/"
	// legacyProtocol is the one of them that any ConfigMap may have.
	legacyProtocol = legacyPrefix + "url-protocol"
	// legacyRewrite asks for lines of a file to be rewritten.
	legacyRewrite = legacyPrefix + "config-yaml"
	// legacyService follows expose and its variants, and is followed by the name of a Service.
	legacyService = ".service-key.config.fabric8.io/"
)

// variants gives what comes before legacyService its meaning, as a name in valueOf.
var variants = map[string]string{
	"expose": "url", "expose-full": "full", "expose-no-path": "no-path", "expose-no-protocol": "no-protocol", "expose-full-no-protocol": "full-no-protocol",
}

// valueOf returns a value that a Service has, "" if it has none yet; known is false if there is no such value.
func valueOf(service *corev1.Service, name string) (value string, known bool) {
	address := service.Annotations[urlOwn]
	u, err := url.Parse(address)
	reached := err == nil && address != ""
	withSlash := strings.TrimSuffix(address, "/") + "/"
	clusterIP := service.Spec.ClusterIP
	switch name {
	case "url", "":
		return strings.TrimSuffix(address, "/"), true
	case "exact-url":
		return address, true
	case "full", "no-path", "no-protocol", "full-no-protocol", "host", "path", "protocol":
		if !reached {
			return "", true
		}
		_, withoutProtocol, _ := strings.Cut(address, "://")
		return map[string]string{
			"full": withSlash, "no-path": u.Scheme + "://" + u.Host + "/", "host": u.Host, "path": "/" + strings.TrimPrefix(u.Path, "/"), "protocol": u.Scheme,
			"no-protocol": strings.TrimSuffix(withoutProtocol, "/"), "full-no-protocol": strings.TrimSuffix(withoutProtocol, "/") + "/",
		}[name], true
	case "cluster-ip":
		return clusterIP, true
	case "cluster-ip-port":
		if port := targetPort(service); port != "" && clusterIP != "" {
			return net.JoinHostPort(clusterIP, port), true
		}
		return "", true
	}
	return "", false
}

// targetPort returns what exposecontroller takes for the Service's port: the first target port that is set.
func targetPort(service *corev1.Service) string {
	for _, p := range service.Spec.Ports {
		if p.TargetPort.StrVal != "" {
			return p.TargetPort.StrVal
		}
		if p.TargetPort.IntVal > 0 {
			return strconv.Itoa(int(p.TargetPort.IntVal))
		}
	}
	return ""
}

// clusterValue returns a value that the configuration has, "" if it has none.
func (c Config) clusterValue(name string) string {
	protocol := c.APIServerProtocol
	if protocol == "" {
		protocol = "https"
	}
	switch {
	case name == "apiserver-protocol":
		return protocol
	case name == "console-url":
		return c.ConsoleURL
	case c.APIServer == "":
		return ""
	case name == "apiserver":
		return c.APIServer
	case name == "apiserver-url":
		return protocol + "://" + c.APIServer
	case name == "oauth-authorize-url":
		path := c.AuthorizePath
		if path == "" {
			path = "/oauth/authorize"
		}
		return joinPath(protocol+"://"+c.APIServer, path)
	}
	return ""
}

// wish is one value that a ConfigMap asks for.
type wish struct {
	key, value string
	// ifEmpty leaves a value that is there alone.
	ifEmpty bool
	// by is the annotation that asks.
	by string
}

// wishesOf returns what a ConfigMap asks for, in a fixed order. find returns a Service of its namespace that is exposed, or
// nil. What has no value yet is left out.
func wishesOf(cm *corev1.ConfigMap, find func(string) *corev1.Service, c Config) ([]wish, problems) {
	var wishes []wish
	var wrong problems
	ask := func(by, value string, keys ...string) {
		for _, key := range keys {
			if value != "" {
				wishes = append(wishes, wish{key: key, value: value, by: by})
			}
		}
	}
	own := find(cm.Name)
	for _, by := range slices.Sorted(maps.Keys(cm.Annotations)) {
		text := cm.Annotations[by]
		variant, name, isService := strings.Cut(by, legacyService)
		switch what, known := variants[variant]; {
		case isService && known:
			if service := find(name); service != nil {
				value, _ := valueOf(service, what)
				ask(by, value, split(text)...)
			}
		case by == legacyProtocol:
			protocol := "https"
			if c.HTTP {
				protocol = "http"
			}
			ask(by, protocol, split(text)...)
		case by == injectOwn:
			for _, line := range strings.Split(text, "\n") {
				if line = strings.TrimSpace(line); line == "" {
					continue
				}
				key, name, what, ok := parseInjection(line)
				if !ok {
					wrong.add(reasonInjection, "The line %q of the annotation %s is left out: write KEY: SERVICE, or KEY: SERVICE VALUE.", line, by)
					continue
				}
				service := find(name)
				if service == nil {
					service = &corev1.Service{}
				}
				value, known := valueOf(service, what)
				if !known {
					wrong.add(reasonInjection, "The line %q of the annotation %s is left out: there is no value %q; see the documentation of expose.", line, by, what)
				}
				ask(by, value, key)
			}
		}
	}
	if own != nil {
		wishes = append(wishes, ownWishes(cm, own, c)...)
	}
	return wishes, wrong
}

// parseInjection reads a line of injectOwn.
func parseInjection(line string) (key, service, value string, ok bool) {
	key, rest, found := strings.Cut(line, ":")
	words := strings.Fields(rest)
	if key = strings.TrimSpace(key); !found || key == "" || len(words) == 0 || len(words) > 2 {
		return "", "", "", false
	}
	return key, words[0], strings.Join(words[1:], ""), true
}

// ownWishes returns what the ConfigMap of a Service's name asks for by exposecontroller's annotations, some of which may be
// on the Service instead.
func ownWishes(cm *corev1.ConfigMap, service *corev1.Service, c Config) []wish {
	var wishes []wish
	for _, a := range []struct{ name, value string }{
		{"url-key", "exact-url"}, {"host-key", "host"}, {"path-key", "path"},
		{"clusterip-key", "cluster-ip"}, {"clusterip-port-key", "cluster-ip-port"}, {"clusterip-port-if-empty-key", "cluster-ip-port"},
		{"apiserver-key", "apiserver"}, {"apiserver-url-key", "apiserver-url"}, {"apiserver-protocol-key", "apiserver-protocol"},
		{"console-url-key", "console-url"}, {"oauth-authorize-url-key", "oauth-authorize-url"},
	} {
		by := legacyPrefix + a.name
		key := strings.TrimSpace(cm.Annotations[by])
		if strings.HasPrefix(a.name, "clusterip") && strings.TrimSpace(service.Annotations[by]) != "" {
			key = strings.TrimSpace(service.Annotations[by])
		}
		value, ofService := valueOf(service, a.value)
		if !ofService {
			value = c.clusterValue(a.value)
		}
		if key != "" && value != "" {
			wishes = append(wishes, wish{key: key, value: value, ifEmpty: strings.Contains(a.name, "if-empty"), by: by})
		}
	}
	return wishes
}

// record says for each key that the operator set which value it had before: nil if it was not there.
type record map[string]*string

func recordOf(cm *corev1.ConfigMap) record {
	was := record{}
	if json.Unmarshal([]byte(cm.Annotations[injected]), &was) != nil {
		return record{} // somebody else's writing
	}
	return was
}

// injection is what is to be done about a ConfigMap.
type injection struct {
	// values are the keys that the operator is to own.
	values map[string]string
	// record is what they had before.
	record record
	// restore is what keys get back that nobody asks for any more.
	restore map[string]string

	problems problems
}

// inject decides what becomes of the wishes of a ConfigMap, of which own are the operator's managedFields.
func inject(cm *corev1.ConfigMap, wishes []wish, own []metav1.ManagedFieldsEntry) injection {
	in := injection{values: map[string]string{}, record: record{}, restore: map[string]string{}}
	was := recordOf(cm)
	by := map[string]string{}
	for _, w := range wishes {
		present := cm.Data[w.key]
		_, mine := was[w.key]
		if w.ifEmpty && present != "" {
			if !mine {
				continue
			}
			w.value = present
		}
		if other, is := in.values[w.key]; is {
			if other != w.value {
				in.problems.add(reasonInjection, "The annotation %s sets key %q to %q; what %s asks for is left out.", by[w.key], w.key, other, w.by)
			}
			continue
		}
		if wrong := validation.IsConfigMapKey(w.key); len(wrong) > 0 {
			in.problems.add(reasonInjection, "What the annotation %s asks for is left out: %q is no key: %s.", w.by, w.key, strings.Join(wrong, "; "))
			continue
		}
		if _, binary := cm.BinaryData[w.key]; binary {
			in.problems.add(reasonInjection, "What the annotation %s asks for is left out: key %q is in binaryData.", w.by, w.key)
			continue
		}
		in.values[w.key], by[w.key] = w.value, w.by
		if in.record[w.key] = was[w.key]; !mine {
			if had, is := cm.Data[w.key]; is {
				in.record[w.key] = &had
			}
		}
	}
	for key, had := range was {
		if _, stays := in.values[key]; !stays && had != nil && appliesField(own, "data", key) {
			in.restore[key] = *had
		}
	}
	return in
}

// desiredConfigMap returns the ConfigMap with the fields that the operator owns and no others.
func desiredConfigMap(cm *corev1.ConfigMap, in injection) (*corev1.ConfigMap, error) {
	want := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID},
	}
	if len(in.values) > 0 {
		text, err := json.Marshal(in.record)
		if err != nil {
			return nil, err
		}
		want.Annotations, want.Data = map[string]string{injected: string(text)}, in.values
	}
	return want, nil
}

// isAsking reports whether a ConfigMap asks for values.
func isAsking(cm *corev1.ConfigMap) bool {
	for name := range cm.Annotations {
		if name == injectOwn || strings.HasPrefix(name, legacyPrefix) || strings.Contains(name, legacyService) {
			return true
		}
	}
	return false
}

// servicesOf returns the names of the Services whose URLs a ConfigMap asks for, beside the one of its own name.
func servicesOf(cm *corev1.ConfigMap) []string {
	names := map[string]bool{}
	for by, text := range cm.Annotations {
		if _, name, found := strings.Cut(by, legacyService); found {
			names[name] = true
		}
		if by == injectOwn {
			for _, line := range strings.Split(text, "\n") {
				if _, name, _, ok := parseInjection(line); ok {
					names[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
