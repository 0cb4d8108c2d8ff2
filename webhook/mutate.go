package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Mutate returns a mutating webhook: fn changes r.Object in place, or returns an
// error to deny the request, as for Validate. It is not called for a DELETE,
// where there is nothing to change.
//
// The API server may call it several times for one request, so that fn must
// leave alone what it has changed before. Where an element of a list moves, fields of it
// that the Go type does not know move with it as long as the element is
// recognised: by being otherwise unchanged, or by its name, key, type or id.
func Mutate[T runtime.Object](fn func(ctx context.Context, r Request[T]) error) http.Handler {
	mustBePointer[T]()
	return Admission(func(ctx context.Context, a *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		response := &admissionv1.AdmissionResponse{Allowed: true}
		if a.Operation == admissionv1.Delete || len(a.Object.Raw) == 0 {
			return response, nil
		}
		r, err := decode[T](a)
		if err != nil {
			return denied(err), nil
		}
		before, err := tree(r.Object)
		if err != nil {
			return nil, err
		}
		if err := fn(ctx, r); err != nil {
			if outOfTime(ctx, err) {
				return nil, err
			}
			return denied(err), nil
		}
		after, err := tree(r.Object)
		if err != nil {
			return nil, err
		}
		raw, err := parse(a.Object.Raw)
		if err != nil {
			return nil, err
		}
		patch := diff(raw, merge(raw, before, after))
		if len(patch) == 0 {
			return response, nil
		}
		if response.Patch, err = json.Marshal(patch); err != nil {
			return nil, fmt.Errorf("encode the patch: %w", err)
		}
		of := admissionv1.PatchTypeJSONPatch
		response.PatchType = &of
		return response, nil
	})
}

// tree returns obj as JSON values; see parse.
func tree(obj any) (any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return parse(data)
}

// parse decodes JSON without loss: numbers stay as they are written.
func parse(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return value, nil
}
