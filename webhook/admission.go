package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Request is what a webhook is asked about. T is a pointer to an API type, such
// as *appsv1.Deployment, or *unstructured.Unstructured.
type Request[T runtime.Object] struct {
	// Object is the object as it would be stored, or for a subresource what was
	// sent to it. It is nil for a DELETE.
	Object T
	// Old is the object as it is stored. It is nil for a CREATE and a CONNECT.
	Old T
	// Admission is the request as it was sent: the operation, who asks, the
	// resource and subresource, and the options.
	Admission *admissionv1.AdmissionRequest
}

// DryRun reports whether nothing will be stored. A webhook must then have no
// effects of its own.
func (r Request[T]) DryRun() bool { return r.Admission.DryRun != nil && *r.Admission.DryRun }

// Validate returns a validating webhook. It allows what fn returns no error for.
//
// The user sees the warnings, one line each, in any case; API servers cut them
// at 256 characters. An error with a status (such as apierrors.NewInvalid) is
// shown as it is, field.ErrorList.ToAggregate() becomes one of Invalid with a
// cause per field, and any other error forbids.
//
// What the Go type cannot hold is denied before fn is called. fn's context has
// the request's deadline and a logger that names the object; it must not
// keep the request.
func Validate[T runtime.Object](fn func(ctx context.Context, r Request[T]) (warnings []string, err error)) http.Handler {
	mustBePointer[T]()
	return Admission(func(ctx context.Context, a *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		r, err := decode[T](a)
		if err != nil {
			return denied(err), nil
		}
		warnings, err := fn(ctx, r)
		if err != nil && outOfTime(ctx, err) {
			return nil, err
		}
		response := &admissionv1.AdmissionResponse{Allowed: true}
		if err != nil {
			response = denied(err)
		}
		response.Warnings = warnings
		return response, nil
	})
}

// Admission returns an admission webhook that sees and says all that the
// protocol has, such as audit annotations. An error of fn is a failure of the
// webhook, not a denial. The response's UID is filled in.
func Admission(fn func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)) http.Handler {
	return review{limit: maxAdmissionBody, answer: func(ctx context.Context, body []byte) (any, error) {
		var in admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, failf(http.StatusBadRequest, "decode the AdmissionReview: %w", err)
		}
		if in.APIVersion != "admission.k8s.io/v1" || in.Kind != "AdmissionReview" {
			return nil, failf(http.StatusBadRequest,
				"got %s %q, want an AdmissionReview of admission.k8s.io/v1: set admissionReviewVersions to [v1]", in.APIVersion, in.Kind)
		}
		if in.Request == nil {
			return nil, failf(http.StatusBadRequest, "the AdmissionReview has no request")
		}
		ctx = withAttributes(ctx, in.Request)
		response, err := fn(ctx, in.Request)
		if err != nil {
			return nil, err
		}
		if response == nil {
			return nil, errors.New("the webhook returned no response")
		}
		response.UID = in.Request.UID
		if !response.Allowed && response.Result != nil {
			logger(ctx).Info("denied", "reason", response.Result.Message)
		}
		return admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: response}, nil
	}}
}

// withAttributes returns ctx with a logger that says what a request is about.
func withAttributes(ctx context.Context, a *admissionv1.AdmissionRequest) context.Context {
	resource := a.Resource.Resource
	if a.SubResource != "" {
		resource += "/" + a.SubResource
	}
	return logr.NewContextWithSlogLogger(ctx, logger(ctx).With(
		"operation", a.Operation, "resource", resource, "object", objectName(a.Namespace, a.Name), "user", a.UserInfo.Username, "uid", a.UID))
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func decode[T runtime.Object](a *admissionv1.AdmissionRequest) (Request[T], error) {
	r := Request[T]{Admission: a}
	for _, part := range []struct {
		raw  []byte
		into *T
	}{{a.Object.Raw, &r.Object}, {a.OldObject.Raw, &r.Old}} {
		if len(part.raw) == 0 || string(part.raw) == "null" {
			continue
		}
		obj := newObject[T]()
		if err := utiljson.Unmarshal(part.raw, obj); err != nil {
			return r, &statusError{http.StatusBadRequest, metav1.StatusReasonBadRequest,
				fmt.Errorf("decode %s %s as %T: %w", a.Kind.Kind, objectName(a.Namespace, a.Name), obj, err)}
		}
		*part.into = obj
	}
	return r, nil
}

// newObject returns an empty object of the type that T points to.
func newObject[T runtime.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// mustBePointer panics when a webhook is made for a type that cannot be decoded.
func mustBePointer[T runtime.Object]() {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("webhook for %v: the type must be a pointer to an API type", t))
	}
}

func outOfTime(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}
