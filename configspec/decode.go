package configspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxMessage is the length of the message about a document that is not valid, in bytes.
const maxMessage = 4 << 10

// invalidError says why a document cannot be used.
type invalidError struct {
	reason string // of the condition Valid
	err    error
}

func (e *invalidError) Error() string {
	text := strings.ToValidUTF8(e.err.Error(), "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len("…")], "") + "…"
}

func (e *invalidError) Unwrap() error { return e.err }

// Hash identifies the content of a document, as Status.Observed and Status.Applied do.
func Hash(document string) string {
	sum := sha256.Sum256([]byte(document))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// read returns the document of a ConfigMap.
func (o Options[T]) read(cm *corev1.ConfigMap) (T, *invalidError) {
	text, found := cm.Data[o.Key]
	if !found {
		var none T
		return none, &invalidError{ReasonMissing, fmt.Errorf("data has no key %q, only %q", o.Key, slices.Sorted(maps.Keys(cm.Data)))}
	}
	return o.parse(text)
}

// parse returns a document: decoded, with defaults, and validated. It never panics on what a user wrote, as
// far as Default and Validate do not.
func (o Options[T]) parse(text string) (T, *invalidError) {
	var decoded, none T
	if len(text) > o.MaxBytes {
		return none, &invalidError{ReasonTooLarge, fmt.Errorf("%s has %d bytes, which is more than %d", o.Key, len(text), o.MaxBytes)}
	}
	if err := decode(text, &decoded); err != nil {
		return none, &invalidError{ReasonMalformed, fmt.Errorf("%s: %w", o.Key, err)}
	}
	if o.Default != nil {
		o.Default(&decoded)
	}
	if o.Validate != nil {
		if err := o.Validate(&decoded); err != nil {
			return none, &invalidError{ReasonInvalid, fmt.Errorf("%s: %w", o.Key, err)}
		}
	}
	return decoded, nil
}

// decode reads a document, strictly: all unknown and duplicate fields are reported, with their paths.
func decode(text string, into any) error {
	data, err := toJSON(strings.TrimPrefix(text, "\uFEFF"))
	if err != nil {
		return err
	}
	if string(data) == "null" {
		return errors.New("the document is empty: {} is one that leaves everything at its default")
	}
	strict, err := strictjson.UnmarshalStrict(data, into)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		field := wrong.Field
		if field == "" {
			field = "the document"
		}
		return fmt.Errorf("%s: is a %s, must be of type %v", field, wrong.Value, wrong.Type)
	}
	return errors.Join(err, errors.Join(strict...))
}

// toJSON returns a document as JSON, which it is when it begins with a brace, and else YAML.
func toJSON(text string) ([]byte, error) {
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") {
		return []byte(trimmed), nil
	}
	// The YAML decoder reads the first document and is silent about the rest.
	if severalDocuments(text) {
		return nil, errors.New("there are several documents: use one key, and one ConfigMap, for each")
	}
	return yaml.YAMLToJSONStrict([]byte(text))
}

// severalDocuments reports whether there is content before and after a marker between documents. At the
// beginning of a line nothing else in YAML looks like one.
func severalDocuments(text string) bool {
	content, ended := false, false
	for line := range strings.Lines(text) {
		for _, marker := range []string{"---", "..."} {
			if rest, ok := strings.CutPrefix(line, marker); ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n")) {
				ended = ended || content
				line = rest
			}
		}
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "%") {
			continue // a comment or a directive
		}
		if ended {
			return true
		}
		content = true
	}
	return false
}
