package expose

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// rewriting says which lines of a file in a ConfigMap are rewritten: those that begin with Prefix become Prefix, the value of
// Expression, and Suffix.
type rewriting struct {
	Key        string `json:"key"`
	Expression string `json:"expression"`
	Prefix     string `json:"prefix"`
	Suffix     string `json:"suffix"`
}

// rewritesOf returns the files of the ConfigMap of the Service's name that are to change, by key. The annotation that says
// how is read from the Service, and if it has none from the ConfigMap.
func rewritesOf(cm *corev1.ConfigMap, service *corev1.Service, c Config) (map[string]string, problems) {
	text := service.Annotations[legacyRewrite]
	if strings.TrimSpace(text) == "" {
		text = cm.Annotations[legacyRewrite]
	}
	var wrong problems
	var items []rewriting
	if err := yaml.Unmarshal([]byte(text), &items); err != nil {
		wrong.add(reasonInjection, "The annotation %s is no list of key, expression, prefix and suffix: %v", legacyRewrite, err)
		return nil, wrong
	}
	files := map[string]string{}
	for _, item := range items {
		value, known := expression(item.Expression, service, c)
		file, exists := files[item.Key]
		if !exists {
			file, exists = cm.Data[item.Key]
		}
		switch {
		case !known:
			wrong.add(reasonInjection, "The annotation %s has the expression %q; use host, url, apiserver, apiserverURL, apiserverProtocol or consoleURL.", legacyRewrite, item.Expression)
		case item.Prefix == "":
			wrong.add(reasonInjection, "The annotation %s has an entry for key %q without a prefix, which would match every line.", legacyRewrite, item.Key)
		case value == "" || !exists: // may come
		default:
			files[item.Key] = rewrite(file, item, value)
		}
	}
	for key, file := range files {
		if file == cm.Data[key] {
			delete(files, key)
		}
	}
	return files, wrong
}

// expression returns the value that an entry names, "" if it has none yet.
func expression(name string, service *corev1.Service, c Config) (value string, known bool) {
	switch name {
	case "host":
		return valueOf(service, "host")
	case "url":
		return valueOf(service, "exact-url")
	case "apiserver":
		return c.clusterValue("apiserver"), true
	case "apiserverURL":
		return c.clusterValue("apiserver-url"), true
	case "apiserverProtocol":
		return c.clusterValue("apiserver-protocol"), true
	case "consoleURL":
		return c.clusterValue("console-url"), true
	}
	return "", false
}

// rewrite changes the lines that an entry means and nothing else: not the ends of lines, and not whether the last one has
// one.
func rewrite(file string, item rewriting, value string) string {
	lines := strings.SplitAfter(file, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, item.Prefix) {
			text := strings.TrimRight(line, "\r\n")
			lines[i] = item.Prefix + value + item.Suffix + line[len(text):]
		}
	}
	return strings.Join(lines, "")
}
