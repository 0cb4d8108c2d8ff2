package hygiene

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"sigs.k8s.io/yaml"
)

// metricNames returns the names that the table of docs/metrics.md has (which a test of module 1 compares with what a manager
// registers), histograms with the names of their series.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, row := range rows(t, "docs/metrics.md") {
		if len(row) != 4 || len(quotes(row[0])) != 1 {
			continue
		}
		name := quotes(row[0])[0]
		if row[1] == "histogram" {
			for _, series := range []string{"_bucket", "_sum", "_count"} {
				names[name+series] = true
			}
			continue
		}
		names[name] = true
	}
	if len(names) < 30 {
		t.Fatalf("only %d metrics found in docs/metrics.md: the search is broken", len(names))
	}
	return names
}

// checkExpression parses a query and looks its metrics up.
func checkExpression(t *testing.T, where, expr string, known map[string]bool) {
	t.Helper()
	parsed, err := metricsql.Parse(expr)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return
	}
	found := 0
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		selector, ok := e.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, labels := range selector.LabelFilterss {
			name := ""
			for _, label := range labels {
				if label.Label == "__name__" {
					name = label.Value
				}
			}
			if found++; !known[name] {
				t.Errorf("%s asks for %q, which docs/metrics.md does not have: %s", where, name, expr)
			}
		}
	})
	if found == 0 {
		t.Errorf("%s asks for no metric: %s", where, expr)
	}
}

func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "dashboards/setpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.Title == "" || dashboard.UID == "" || dashboard.SchemaVersion == 0 || len(dashboard.Panels) < 6 {
		t.Errorf("%q with %d panels at the top level", dashboard.Title, len(dashboard.Panels))
	}
	known := metricNames(t)
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range dashboard.Templating.List {
		variables[v.Name] = true
		if q, ok := v.Query.(map[string]any); ok {
			values := regexp.MustCompile(`^label_values\((.+), ([a-z]+)\)$`).FindStringSubmatch(q["query"].(string))
			if values == nil {
				t.Errorf("variable %s: %v is not understood", v.Name, q["query"])
				continue
			}
			checkExpression(t, "variable "+v.Name, values[1], known)
		}
	}
	ids := map[int]bool{}
	variable := regexp.MustCompile(`\$\{?(\w+)\}?`)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.W == 0 || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: an id twice, or no title, place or query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, match := range variable.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[match[1]] {
					t.Errorf("panel %q uses $%s, which the dashboard does not define", p.Title, match[1])
				}
			}
			checkExpression(t, "panel "+p.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"), known)
		}
	}
}

func TestAlerts(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "dashboards/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// What Prometheus reads, and nothing else: it refuses unknown fields.
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		t.Fatal(err)
	}
	known := metricNames(t)
	seen := map[string]bool{}
	functions := template.FuncMap{"humanizePercentage": func(any) string { return "" }, "humanizeDuration": func(any) string { return "" }}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || seen[rule.Alert] {
				t.Errorf("alert %q has no name, or one twice", rule.Alert)
			}
			seen[rule.Alert] = true
			checkExpression(t, "alert "+rule.Alert, rule.Expr, known)
			if rule.For != "" {
				if _, err := time.ParseDuration(rule.For); err != nil {
					t.Errorf("alert %s: %v", rule.Alert, err)
				}
			}
			if !slices.Contains([]string{"info", "warning", "critical"}, rule.Labels["severity"]) {
				t.Errorf("alert %s has the severity %q", rule.Alert, rule.Labels["severity"])
			}
			for _, name := range []string{"summary", "description"} {
				text := rule.Annotations[name]
				// Prometheus defines these variables before the text.
				_, err := template.New(name).Funcs(functions).Parse("{{ $labels := . }}{{ $value := . }}" + text)
				if text == "" || err != nil {
					t.Errorf("alert %s: the annotation %s is %q: %v", rule.Alert, name, text, err)
				}
			}
		}
	}
	if len(seen) < 5 {
		t.Errorf("%d alerts", len(seen))
	}
}
