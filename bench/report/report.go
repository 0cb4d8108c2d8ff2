// Package report holds what the benchmarks found and shows it: as a table for people and as JSON for programs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Result is one figure beside its peer's.
type Result struct {
	// ID names the figure; it never changes its meaning.
	ID   string  `json:"id"`
	Unit string  `json:"unit"`
	Ours float64 `json:"ours"`
	// Peer is nil when the peer was left out.
	Peer *float64 `json:"peer"`
	// Ratio is peer ÷ ours for costs and ours ÷ peer for rates: more than 1 is better.
	Ratio *float64 `json:"ratio"`
	// Budget says in words what the figure should be; Met is nil when that could not be judged.
	Budget string `json:"budget"`
	Met    *bool  `json:"met"`
	// Note says what was measured against what.
	Note string `json:"note"`
}

// Cost is a result of which less is better.
func Cost(id, unit string, ours float64) Result { return Result{ID: id, Unit: unit, Ours: ours} }

// Against adds the peer's figure, of which less is better.
func (r Result) Against(peer float64, note string) Result {
	ratio := peer / r.Ours
	r.Peer, r.Ratio, r.Note = &peer, &ratio, note
	return r
}

// AgainstRate adds the peer's figure, of which more is better.
func (r Result) AgainstRate(peer float64, note string) Result {
	ratio := r.Ours / peer
	r.Peer, r.Ratio, r.Note = &peer, &ratio, note
	return r
}

// AtMost judges the figure by an absolute budget.
func (r Result) AtMost(limit float64) Result {
	return r.judge(fmt.Sprintf("≤ %s %s", number(limit), r.Unit), r.Ours <= limit)
}

// AtLeastRatio judges the figure by the ratio to the peer. Without a peer it stays unjudged.
func (r Result) AtLeastRatio(limit float64) Result {
	if r.Ratio == nil {
		r.Budget = fmt.Sprintf("ratio ≥ %s", number(limit))
		return r
	}
	return r.judge(fmt.Sprintf("ratio ≥ %s", number(limit)), *r.Ratio >= limit)
}

// judge adds one budget; a figure with several meets them all or none.
func (r Result) judge(budget string, met bool) Result {
	if r.Budget != "" {
		budget = r.Budget + "; " + budget
	}
	if r.Met != nil {
		met = met && *r.Met
	}
	r.Budget, r.Met = budget, &met
	return r
}

// Table writes the results for people.
func Table(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tOURS\tPEER\tUNIT\tRATIO\tBUDGET\tMET\tNOTE")
	for _, r := range results {
		peer, ratio, met := "-", "-", "-"
		if r.Peer != nil {
			peer, ratio = number(*r.Peer), fmt.Sprintf("%.2f", *r.Ratio)
		}
		if r.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*r.Met]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, number(r.Ours), peer, r.Unit, ratio, r.Budget, met, r.Note)
	}
	return t.Flush()
}

// number shows three digits or more of a figure.
func number(x float64) string {
	if x == math.Trunc(x) || math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// Save writes the results for programs.
func Save(path string, results []Result) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	return nil
}
