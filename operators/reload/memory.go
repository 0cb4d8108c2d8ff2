package reload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxSources is how many sources one workload may follow, so that what is remembered of them fits into an annotation: at
// the worst half of the 256 KiB that the server allows.
const maxSources = 500

// memory is what is remembered on a workload: for each source that it follows the content that its Pods were last rolled
// for, or had when the source was first seen. A nil memory knows nothing.
type memory struct {
	// Key identifies the key that the hashes were made with. Hashes of another key say nothing.
	Key string `json:"key"`
	// Since is when the workload was first seen, to the second.
	Since metav1.Time `json:"since"`
	// Rolled is when the operator last rolled the workload, to the second; zero: never.
	Rolled *metav1.Time `json:"rolled,omitempty"`
	// Restart is the spec.restartAt that was last written to an Argo Rollout.
	Restart string `json:"restart,omitempty"`
	// Suspended says that the operator suspended the Job and has yet to resume it.
	Suspended bool             `json:"suspended,omitempty"`
	Sources   map[source]entry `json:"sources,omitempty"`
}

// entry is what is remembered of one source.
type entry struct {
	// hash is the keyed hash of the content; empty: there was no such source.
	hash string
	// version is the source's resourceVersion when the hash was taken. A cache that is still behind it knows nothing new.
	version string
}

// absent is how an entry of a source that does not exist is written.
const absent = "-"

// MarshalText writes an entry as "hash@version".
func (e entry) MarshalText() ([]byte, error) {
	switch {
	case e.hash == "":
		return []byte(absent), nil
	case e.version == "":
		return []byte(e.hash), nil
	}
	return []byte(e.hash + "@" + e.version), nil
}

// UnmarshalText reads what MarshalText wrote.
func (e *entry) UnmarshalText(text []byte) error {
	*e = entry{}
	if string(text) != absent {
		e.hash, e.version, _ = strings.Cut(string(text), "@")
		if e.hash == "" {
			return fmt.Errorf("%q is no hash", text)
		}
	}
	return nil
}

// parseMemory reads the State annotation.
func parseMemory(text string) (*memory, error) {
	m := &memory{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", State, err)
	}
	return m, nil
}

// String is the State annotation. Equal memories have equal strings.
func (m *memory) String() string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, a time and a bool can be encoded
	}
	return string(text)
}

// clone returns a copy that shares nothing; that of a nil memory is empty.
func (m *memory) clone() *memory {
	if m == nil {
		return &memory{}
	}
	c := *m
	c.Sources = maps.Clone(m.Sources)
	return &c
}

// rolledAt returns when the workload was last rolled, and the zero time when it never was.
func (m *memory) rolledAt() time.Time {
	if m == nil || m.Rolled == nil {
		return time.Time{}
	}
	return m.Rolled.Time
}

// stamp returns the value for the template: it depends on what is remembered of the sources, so that Pods of the same
// content have the same template, and differs from the present one.
func (m *memory) stamp(key secretKey, present string) string {
	var words []string
	for _, s := range slices.SortedFunc(maps.Keys(m.Sources), source.compare) {
		words = append(words, s.String(), m.Sources[s].hash)
	}
	stamp := key.hash(words...)
	if stamp == present {
		stamp += ".1"
	}
	return stamp
}
