package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/setpoint-dev/setpoint/telemetry/debug"
)

// print writes the story for people.
func (t told) print(out io.Writer, now time.Time) error {
	s := t.Story
	name := s.Name
	if s.Namespace != "" {
		name = s.Namespace + "/" + name
	}
	fmt.Fprintf(out, "%s %s, as %s tells it:\n", s.Kind, name, t.Manager)
	if s.Exists != nil && !*s.Exists {
		fmt.Fprintln(out, "  It does not exist, or is outside of what the manager's cache shows.")
	}
	for _, c := range s.Controllers {
		for _, line := range standing(c, now) {
			fmt.Fprintf(out, "  Controller %s: %s.\n", c.Controller, line)
		}
		if len(c.Reconciles) > 0 {
			fmt.Fprintln(out)
			if err := reconciles(out, c.Reconciles, now, false); err != nil {
				return err
			}
		}
	}
	if len(s.Controllers) == 0 {
		fmt.Fprintln(out, "  No controller of this manager reconciles the kind.")
	}
	if len(s.Others) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nReconciles of other objects that it caused, or that wrote it:\n\n")
	return reconciles(out, s.Others, now, true)
}

// standing says how an object stands with a controller.
func standing(c debug.Chapter, now time.Time) []string {
	var lines []string
	if c.Problem != "" {
		lines = append(lines, "it does not work: "+strings.ReplaceAll(c.Problem, "\n", "; "))
	}
	switch c.Paused {
	case "object":
		lines = append(lines, "the object is paused by its annotation")
	case "controller":
		lines = append(lines, "the controller is paused by its program")
	}
	if !c.Held {
		holder := c.Holder
		if holder == "" {
			holder = "nobody"
		}
		line := fmt.Sprintf("this replica does not hold the object (shard %d), %s does", c.Shard, holder)
		if c.Parked {
			line += "; a request for it is kept until that changes"
		}
		return append(lines, line)
	}
	switch {
	case c.Now == nil && len(c.Reconciles) == 0:
		lines = append(lines, "it was not reconciled lately, and nothing is planned")
	case c.Now == nil:
		lines = append(lines, "it waits for a change")
	default:
		lines = append(lines, "it "+itemText(*c.Now, now))
	}
	if c.Next != nil {
		lines = append(lines, "after that it "+itemText(*c.Next, now))
	}
	return lines
}

// itemText says how an object runs or waits.
func itemText(i debug.Item, now time.Time) string {
	var text string
	switch {
	case i.State == "running":
		text = "runs since " + age(now, i.Since)
	case i.State == "ready":
		text = "waits for a worker since " + age(now, i.Since)
	case i.State == "throttled":
		text = "is to be tried again, and waits for its turn among all retries, " + until(now, i.Due)
	case i.Class == "retry":
		text = "is tried again " + until(now, i.Due)
	default:
		text = "is planned " + until(now, i.Due)
	}
	if i.Failures > 0 {
		text += fmt.Sprintf(", after %d failures", i.Failures)
	}
	if len(i.Causes) > 0 && i.State != "delayed" {
		text += ", because of " + strings.Join(causeTexts(i.Causes), ", ")
	}
	return text
}

// reconciles prints a table, the latest first. What does not fit in a line goes on below.
func reconciles(out io.Writer, all []debug.Reconcile, now time.Time, others bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	head := "WHEN\tBECAUSE OF\tRESULT\tTOOK\tWAITED\tWROTE"
	if others {
		head = "WHEN\tRECONCILE OF\tBECAUSE OF\tRESULT\tTOOK\tWAITED\tWROTE"
	}
	fmt.Fprintln(w, "  "+head)
	for _, r := range all {
		causes, writes := causeTexts(r.Causes), writeTexts(r)
		for n := range max(len(causes), len(writes), 1) {
			cells := []string{"", at(causes, n), "", "", "", at(writes, n)}
			if n == 0 {
				cells[0], cells[2] = age(now, &r.Began)+" ago", resultText(r)
				cells[3], cells[4] = seconds(r.Duration), seconds(r.Waited)
			}
			if others {
				of := ""
				if n == 0 {
					of = r.Kind + " " + r.Object
				}
				cells = append([]string{cells[0], of}, cells[1:]...)
			}
			fmt.Fprintln(w, "  "+strings.Join(cells, "\t"))
		}
	}
	return w.Flush()
}

func at(lines []string, n int) string {
	if n < len(lines) {
		return lines[n]
	}
	return ""
}

func causeTexts(causes []debug.Cause) []string {
	texts := make([]string, len(causes))
	for i, c := range causes {
		texts[i] = c.String()
	}
	return texts
}

func writeTexts(r debug.Reconcile) []string {
	var texts []string
	for _, w := range r.Writes {
		text := w.Verb + " " + w.Kind + " " + w.Object
		if w.Subresource != "" {
			text = w.Verb + " " + w.Subresource + " of " + w.Kind + " " + w.Object
		}
		if len(w.Fields) > 0 {
			text += " (" + strings.Join(w.Fields, ", ") + ")"
		}
		if w.Error != "" {
			text += ": " + oneLine(w.Error)
		}
		texts = append(texts, text)
	}
	if r.Unlisted > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", r.Unlisted))
	}
	return texts
}

func resultText(r debug.Reconcile) string {
	text := r.Result
	switch r.Result {
	case "skipped":
		text = r.Text
	case "requeue_after":
		text = "success, again in " + seconds(r.After)
	case "requeue":
		text = "to be tried again"
	}
	if r.Error != "" {
		text += ": " + oneLine(r.Error)
	}
	return text
}

// oneLine makes a text fit into a table.
func oneLine(text string) string { return cut(strings.Join(strings.Fields(text), " "), 100) }

func seconds(s float64) string { return rounded(time.Duration(s * float64(time.Second))) }

// rounded shows a duration as exactly as is of use.
func rounded(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func age(now time.Time, t *time.Time) string {
	if t == nil {
		return "an unknown time"
	}
	return rounded(max(now.Sub(*t), 0))
}

func until(now time.Time, t *time.Time) string {
	switch {
	case t == nil:
		return "some time"
	case !t.After(now):
		return "now"
	}
	return "in " + rounded(t.Sub(now))
}
