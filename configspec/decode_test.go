package configspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// website is a document as a user's program has one.
type website struct {
	Host     string   `json:"host"`
	Replicas *int32   `json:"replicas,omitempty"`
	Ports    []port   `json:"ports,omitempty"`
	Aliases  []string `json:"aliases,omitempty"`
}

type port struct {
	Number int32 `json:"number"`
}

// Default serves one replica.
func (w *website) Default() {
	if w.Replicas == nil {
		one := int32(1)
		w.Replicas = &one
	}
}

func validate(w *website) error {
	var errs field.ErrorList
	if w.Host == "" {
		errs = append(errs, field.Required(field.NewPath("host"), "no name, no site"))
	}
	if *w.Replicas > 5 {
		errs = append(errs, field.Invalid(field.NewPath("replicas"), *w.Replicas, "choose 1 to 5"))
	}
	return errs.ToAggregate()
}

var options = Options[website]{
	Label: "example.com/spec", Key: "spec.yaml", MaxBytes: 1000, Default: (*website).Default, Validate: validate,
}

func two() *int32 {
	n := int32(2)
	return &n
}

func TestDocuments(t *testing.T) {
	for _, test := range []struct {
		why, document string
		want          website
	}{
		{"YAML", "host: a\nreplicas: 2\nports:\n- number: 80\n", website{Host: "a", Replicas: two(), Ports: []port{{80}}}},
		{"JSON", ` {"host": "a", "replicas": 2} ` + "\n", website{Host: "a", Replicas: two()}},
		{"a marker before the document", "# one\n---\nhost: a\nreplicas: 2\n", website{Host: "a", Replicas: two()}},
		{"a marker after the document", "host: a\nreplicas: 2\n---\n# nothing else\n", website{Host: "a", Replicas: two()}},
		{"lines of dashes within a text", "host: |-\n  ---\n  a\nreplicas: 2\n", website{Host: "---\na", Replicas: two()}},
		{"anchors", "host: &name a\nreplicas: 2\naliases: [*name]\n", website{Host: "a", Replicas: two(), Aliases: []string{"a"}}},
		{"lines of another system", "host: a\r\nreplicas: 2\r\n", website{Host: "a", Replicas: two()}},
		{"a byte order mark", "\uFEFFhost: a\nreplicas: 2\n", website{Host: "a", Replicas: two()}},
	} {
		got, invalid := options.parse(test.document)
		if invalid != nil {
			t.Errorf("%s: %v", test.why, invalid)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
}

func TestDefaultsComeBeforeValidation(t *testing.T) {
	got, invalid := options.parse("host: a")
	if invalid != nil || got.Replicas == nil || *got.Replicas != 1 {
		t.Errorf("got %+v, %v", got, invalid)
	}
}

func TestDocumentsThatAreNotValid(t *testing.T) {
	for _, test := range []struct {
		why, document, reason string
		says                  []string
	}{
		{"unknown fields, all of them", "host: a\nhots: b\nports:\n- number: 1\n  proto: TCP\n", ReasonMalformed, []string{`"hots"`, `"ports[0].proto"`}},
		{"an unknown field of JSON", `{"host": "a", "hots": 1}`, ReasonMalformed, []string{`"hots"`}},
		{"a field in other letters", "Host: a\n", ReasonMalformed, []string{`"Host"`}},
		{"a field twice", "host: a\nhost: b\n", ReasonMalformed, []string{"line 2", `"host"`}},
		{"a field twice in JSON", `{"host": "a", "host": "b"}`, ReasonMalformed, []string{"duplicate", `"host"`}},
		{"another type", "host: a\nports: [{number: x}]\n", ReasonMalformed, []string{"ports.number", "string", "int32"}},
		{"another type of the whole", "- host: a\n", ReasonMalformed, []string{"the document", "array"}},
		{"a number that is too great", "host: a\nreplicas: 99999999999\n", ReasonMalformed, []string{"replicas", "99999999999"}},
		{"no YAML", "host: [\n", ReasonMalformed, []string{"line"}},
		{"no JSON", `{"host": "a"`, ReasonMalformed, []string{"unexpected end"}},
		{"empty", "", ReasonMalformed, []string{"empty", "{}"}},
		{"comments only", "# to do\n", ReasonMalformed, []string{"empty"}},
		{"null", "null", ReasonMalformed, []string{"empty"}},
		{"two documents", "host: a\n---\nhost: b\n", ReasonMalformed, []string{"several"}},
		{"two documents with an end", "host: a\n...\nhost: b\n", ReasonMalformed, []string{"several"}},
		{"two of JSON", `{"host":"a"} {"host":"b"}`, ReasonMalformed, []string{"after top-level value"}},
		{"aliases without end", bomb(), ReasonMalformed, []string{"excessive aliasing"}},
		{"too large", "host: " + strings.Repeat("a", 1000), ReasonTooLarge, []string{"1006", "1000"}},
		{"what Validate says", "replicas: 9\n", ReasonInvalid, []string{"host: Required", "replicas: Invalid value: 9"}},
	} {
		spec, invalid := options.parse(test.document)
		if invalid == nil || invalid.reason != test.reason {
			t.Errorf("%s: got %v, want %s", test.why, invalid, test.reason)
			continue
		}
		for _, word := range append(test.says, "spec.yaml") {
			if !strings.Contains(invalid.Error(), word) {
				t.Errorf("%s: does not say %q: %s", test.why, word, invalid)
			}
		}
		if diff := cmp.Diff(website{}, spec); diff != "" {
			t.Errorf("%s: something of it is used (-want +got):\n%s", test.why, diff)
		}
	}

	_, invalid := options.read(&corev1.ConfigMap{Data: map[string]string{"spec.yml": "host: a"}})
	if invalid == nil || invalid.reason != ReasonMissing || !strings.Contains(invalid.Error(), `"spec.yml"`) {
		t.Errorf("no document: got %v", invalid)
	}
}

// bomb is a small document that is very large when its aliases are followed.
func bomb() string {
	doc := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		name, before := string(rune('1'+i)), string(rune('0'+i))
		doc += "a" + name + ": &a" + name + " [" + strings.TrimSuffix(strings.Repeat("*a"+before+",", 10), ",") + "]\n"
	}
	return doc
}

func TestLongMessagesAreCut(t *testing.T) {
	var fields strings.Builder
	for range 60 {
		fields.WriteString("ä" + strings.Repeat("é", 80) + fields.String()[:min(fields.Len(), 3)] + ": 1\n")
	}
	large := options
	large.MaxBytes = 1 << 20
	_, invalid := large.parse(fields.String())
	if invalid == nil || len(invalid.Error()) > maxMessage {
		t.Fatalf("got %d bytes", len(invalid.Error()))
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"host: a\n", `{"host":"a"}`, "host: a\n---\nhost: b", "", "- a", bomb()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		_, invalid := options.parse(document)
		if invalid != nil && (invalid.Error() == "" || len(invalid.Error()) > maxMessage) {
			t.Errorf("%d bytes of message", len(invalid.Error()))
		}
	})
}
