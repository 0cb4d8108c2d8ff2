package setpoint

import (
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// wantsPage reports whether whoever asks is a browser.
func wantsPage(req *http.Request) bool {
	return strings.Contains(req.Header.Get("Accept"), "text/html")
}

// writePage writes the overview for people.
func (m *Manager) writePage(w http.ResponseWriter, overview debug.Overview) {
	now := time.Now()
	page, err := template.New("overview").Funcs(template.FuncMap{
		"age": func(t *time.Time) string { return ago(now, t) },
	}).Parse(overviewPage)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	if err := page.Execute(w, overview); err != nil {
		m.log.Debug("debug page not sent", "error", err)
	}
}

// ago says how long ago, or in how long, a time is.
func ago(now time.Time, t *time.Time) string {
	switch {
	case t == nil:
		return ""
	case t.After(now):
		return "in " + t.Sub(now).Round(time.Millisecond).String()
	}
	return now.Sub(*t).Round(time.Millisecond).String() + " ago"
}

const overviewPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Instance}}</title><style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em } table { border-collapse: collapse; margin: .5em 0 1.5em }
td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top } .bad { color: #b00 }
</style></head><body>
{{define "items"}}{{range .}}<tr><td>{{.Object}}</td><td>{{.State}} {{.Class}}</td><td>{{age .Since}}</td><td>{{age .Due}}</td><td>{{if .Failures}}{{.Failures}}{{end}}</td><td>{{range .Causes}}{{.}}<br>{{end}}</td></tr>{{end}}{{end}}
<h1>{{.Instance}}</h1>
<p>{{with .Leadership}}{{if eq .Mode "none"}}No leader election.{{else}}{{if .Leading}}Leading{{else}}Standby{{end}}, by {{.Mode}}.{{end}} <span class="bad">{{.Problem}}</span>{{end}}</p>
{{with .Leadership.Leases}}<table><tr><th>shard</th><th>holder</th><th>here</th><th>writes until</th></tr>
{{range .}}<tr><td>{{.Shard}}</td><td>{{.Holder}}</td><td>{{.Held}}</td><td>{{age .Fence}}</td></tr>{{end}}</table>{{end}}
{{range .Controllers}}<h2>{{.Name}} ({{.Kind}}){{if .Paused}}, paused{{end}}</h2>
{{with .Problem}}<p class="bad">{{.}}</p>{{end}}
<p>{{len .Running}} of {{.Workers}} workers busy; ready {{range $class, $n := .Ready}}{{$class}} {{$n}}, {{end}}delayed {{.Delayed}}, parked {{.Parked}}</p>
<table><tr><th>watch</th><th>kind</th><th>synced</th><th>last error</th></tr>
{{range .Watches}}<tr><td>{{.Source}}</td><td>{{.Kind}}{{with .Cluster}} in {{.}}{{end}}</td><td>{{.Synced}}</td><td class="bad">{{.Error}}</td></tr>{{end}}</table>
<table><tr><th>object</th><th>state</th><th>since</th><th>due</th><th>failures</th><th>causes</th></tr>{{template "items" .Running}}{{template "items" .Waiting}}</table>
{{end}}<h2>Cache</h2><table><tr><th>kind</th><th>objects</th><th>bytes</th><th>last error</th></tr>
{{range .Cache}}<tr><td>{{.Kind}}{{with .Cluster}} in {{.}}{{end}}</td><td>{{.Objects}}</td><td>{{.Bytes}}</td><td class="bad">{{.Error}}</td></tr>{{end}}</table>
</body></html>
`
