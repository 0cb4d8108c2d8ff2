package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// recorded returns a review from testdata.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// post sends a review as an API server does.
func post(h http.Handler, body []byte) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/hook?timeout=10s", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	return serve(h, req)
}

func serve(h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// admit has a recorded review answered, and checks what every answer must have.
func admit(t *testing.T, h http.Handler, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	w := post(h, body)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("HTTP %d, %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	var in, out admissionv1.AdmissionReview
	if err := errors.Join(json.Unmarshal(body, &in), json.Unmarshal(w.Body.Bytes(), &out)); err != nil {
		t.Fatal(err)
	}
	if out.TypeMeta != in.TypeMeta || out.Request != nil || out.Response == nil || out.Response.UID != in.Request.UID {
		t.Fatalf("the answer is not one to the review: %s", w.Body)
	}
	return out.Response
}

func TestValidateSeesTheRequest(t *testing.T) {
	for _, name := range []string{"create", "update", "delete"} {
		called := false
		h := Validate(func(ctx context.Context, r Request[*appsv1.Deployment]) ([]string, error) {
			called = true
			if (r.Object == nil) != (name == "delete") || (r.Old == nil) != (name == "create") || r.DryRun() != (name == "delete") {
				t.Errorf("%s: object %v, old %v, dry run %v", name, r.Object != nil, r.Old != nil, r.DryRun())
			}
			if r.Object != nil && r.Object.Spec.Template.Spec.Containers[1].Image != "envoy:2" || r.Old != nil && *r.Old.Spec.Replicas != 2 {
				t.Errorf("%s: wrong content", name)
			}
			if a := r.Admission; !strings.EqualFold(string(a.Operation), name) || a.UserInfo.Username != "alice" || len(a.Options.Raw) == 0 {
				t.Errorf("%s: admission request %+v", name, a)
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
				t.Errorf("%s: deadline %v %v, want one within 10s", name, deadline, ok)
			}
			return []string{"the image is old"}, nil
		})
		response := admit(t, h, recorded(t, name))
		if !called || !response.Allowed || response.Result != nil || len(response.Patch) > 0 || !cmp.Equal(response.Warnings, []string{"the image is old"}) {
			t.Errorf("%s: called %v, response %+v", name, called, response)
		}
	}
}

func TestValidateSubresource(t *testing.T) {
	h := Validate(func(_ context.Context, r Request[*autoscalingv1.Scale]) ([]string, error) {
		if r.Admission.SubResource == "scale" && r.Object.Spec.Replicas > 10*r.Old.Spec.Replicas {
			return nil, fmt.Errorf("%d replicas are too many at once", r.Object.Spec.Replicas)
		}
		return nil, nil
	})
	if response := admit(t, h, recorded(t, "scale")); response.Allowed || response.Result.Message != "50 replicas are too many at once" {
		t.Errorf("response %+v, want a denial", response)
	}
}

func TestDenials(t *testing.T) {
	path := field.NewPath("spec")
	required := field.Required(path.Child("host"), "say which")
	invalid := field.Invalid(path.Child("replicas"), 9, "too many")
	causes := []metav1.StatusCause{
		{Type: metav1.CauseTypeFieldValueRequired, Field: "spec.host", Message: required.ErrorBody()},
		{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.replicas", Message: invalid.ErrorBody()},
	}
	foo := schema.GroupKind{Group: "example.com", Kind: "Foo"}
	status := apierrors.NewInvalid(foo, "a", field.ErrorList{required, invalid})
	for why, test := range map[string]struct {
		err    error
		code   int32
		reason metav1.StatusReason
		causes []metav1.StatusCause
	}{
		"a plain error":         {errors.New("no"), 403, metav1.StatusReasonForbidden, nil},
		"field errors":          {field.ErrorList{required, invalid}.ToAggregate(), 422, metav1.StatusReasonInvalid, causes},
		"joined field errors":   {errors.Join(required, invalid), 422, metav1.StatusReasonInvalid, causes},
		"one field error":       {invalid, 422, metav1.StatusReasonInvalid, causes[1:]},
		"a field error and one": {errors.Join(required, errors.New("no")), 403, metav1.StatusReasonForbidden, nil},
		"a status":              {status, 422, metav1.StatusReasonInvalid, causes},
		"a wrapped status":      {fmt.Errorf("quota: %w", apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("b"))), 409, metav1.StatusReasonConflict, nil},
		"a status without code": {&apierrors.StatusError{}, 403, "", nil},
		"not our time-out":      {fmt.Errorf("database: %w", context.DeadlineExceeded), 403, metav1.StatusReasonForbidden, nil},
	} {
		response := admit(t, Validate(func(context.Context, Request[*appsv1.Deployment]) ([]string, error) {
			return []string{"also"}, test.err
		}), recorded(t, "update"))
		got := response.Result
		if response.Allowed || got.Status != metav1.StatusFailure || got.Code != test.code || got.Reason != test.reason || got.Message != test.err.Error() {
			t.Errorf("%s: result %+v", why, got)
		}
		var details []metav1.StatusCause
		if got.Details != nil {
			details = got.Details.Causes
		}
		if diff := cmp.Diff(test.causes, details); diff != "" {
			t.Errorf("%s: causes differ (-want +got):\n%s", why, diff)
		}
		if len(response.Warnings) != 1 {
			t.Errorf("%s: warnings %v", why, response.Warnings)
		}
	}
}

func TestDeniesWhatTheTypeCannotHold(t *testing.T) {
	body := bytes.ReplaceAll(recorded(t, "create"), []byte(`"replicas": 2`), []byte(`"replicas": "two"`))
	for name, h := range map[string]http.Handler{
		"validate": Validate(func(context.Context, Request[*appsv1.Deployment]) ([]string, error) { panic("called") }),
		"mutate":   Mutate(func(context.Context, Request[*appsv1.Deployment]) error { panic("called") }),
	} {
		response := admit(t, h, body)
		if response.Allowed || response.Result.Code != 400 || !strings.Contains(response.Result.Message, "Deployment shop/web") {
			t.Errorf("%s: response %+v", name, response.Result)
		}
	}
	// Who takes anything gets it.
	admit(t, Validate(func(_ context.Context, r Request[*unstructured.Unstructured]) ([]string, error) {
		if replicas, _, err := unstructured.NestedString(r.Object.Object, "spec", "replicas"); replicas != "two" {
			t.Errorf("replicas %q, error %v", replicas, err)
		}
		return nil, nil
	}), body)
}

func TestFailuresAreHTTPErrors(t *testing.T) {
	good := string(recorded(t, "create"))
	ok := func(context.Context, Request[*appsv1.Deployment]) ([]string, error) { return nil, nil }
	for why, test := range map[string]struct {
		method, content, query, body string
		fn                           func(context.Context, Request[*appsv1.Deployment]) ([]string, error)
		code                         int
		want                         string
	}{
		"read":               {method: http.MethodGet, code: 405, want: "POST"},
		"form":               {content: "text/plain", code: 415, want: `"text/plain"`},
		"no content type":    {content: "-", code: 415, want: "application/json"},
		"charset":            {content: "application/json; charset=utf-8", code: 200},
		"too large":          {body: strings.Repeat(" ", maxAdmissionBody+1), code: 413, want: "larger than 7340032 bytes"},
		"not JSON":           {body: "{", code: 400, want: "AdmissionReview"},
		"another kind":       {body: `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}`, code: 400, want: "admissionReviewVersions"},
		"an old version":     {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{}}`, code: 400, want: "v1beta1"},
		"no request":         {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, code: 400, want: "no request"},
		"bad timeout":        {query: "?timeout=soon", code: 400, want: `"soon"`},
		"negative timeout":   {query: "?timeout=-1s", code: 400, want: "positive"},
		"panic":              {fn: func(context.Context, Request[*appsv1.Deployment]) ([]string, error) { panic("oops") }, code: 500, want: "panic: oops"},
		"nil dereference":    {fn: func(_ context.Context, r Request[*appsv1.Deployment]) ([]string, error) { _ = *r.Old; return nil, nil }, code: 500, want: "nil pointer"},
		"all is well, still": {code: 200},
	} {
		if test.method == "" {
			test.method = http.MethodPost
		}
		if test.body == "" {
			test.body = good
		}
		if test.fn == nil {
			test.fn = ok
		}
		req := httptest.NewRequest(test.method, "/hook"+test.query, strings.NewReader(test.body))
		switch test.content {
		case "":
			req.Header.Set("Content-Type", "application/json")
		case "-":
		default:
			req.Header.Set("Content-Type", test.content)
		}
		w := serve(Validate(test.fn), req)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: HTTP %d %q, want %d with %q", why, w.Code, w.Body, test.code, test.want)
		}
	}
}

func TestDeadline(t *testing.T) {
	for query, want := range map[string]time.Duration{"?timeout=2s": 2 * time.Second, "": maxTimeout, "?timeout=1h": maxTimeout} {
		synctest.Test(t, func(t *testing.T) {
			for name, h := range map[string]http.Handler{
				"validate": Validate(func(ctx context.Context, _ Request[*appsv1.Deployment]) ([]string, error) {
					<-ctx.Done()
					return nil, fmt.Errorf("asking around: %w", ctx.Err())
				}),
				"mutate": Mutate(func(ctx context.Context, _ Request[*appsv1.Deployment]) error {
					<-ctx.Done()
					return fmt.Errorf("asking around: %w", ctx.Err())
				}),
			} {
				start := time.Now()
				req := httptest.NewRequest(http.MethodPost, "/hook"+query, bytes.NewReader(recorded(t, "create")))
				req.Header.Set("Content-Type", "application/json")
				w := serve(h, req)
				if w.Code != http.StatusGatewayTimeout || time.Since(start) != want {
					t.Errorf("%s%s: HTTP %d %s after %v, want 504 after %v", name, query, w.Code, w.Body, time.Since(start), want)
				}
			}
		})
	}
}

func TestLogger(t *testing.T) {
	var log bytes.Buffer
	h := Validate(func(ctx context.Context, _ Request[*appsv1.Deployment]) ([]string, error) {
		logr.FromContextAsSlogLogger(ctx).Info("checking")
		return nil, errors.New("no")
	})
	req := httptest.NewRequest(http.MethodPost, "/hook", bytes.NewReader(recorded(t, "delete")))
	req.Header.Set("Content-Type", "application/json")
	serve(h, req.WithContext(logr.NewContextWithSlogLogger(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))))
	for _, want := range []string{"msg=checking operation=DELETE resource=deployments object=shop/web user=alice", "msg=denied", "reason=no"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
}

func TestAdmissionWithoutResponse(t *testing.T) {
	h := Admission(func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		return nil, nil
	})
	if w := post(h, recorded(t, "create")); w.Code != 500 || !strings.Contains(w.Body.String(), "no response") {
		t.Errorf("HTTP %d %s", w.Code, w.Body)
	}
}

func TestPaths(t *testing.T) {
	for want, got := range map[string]string{
		"/validate-apps-v1-deployment":               ValidatePath(appsv1.SchemeGroupVersion.WithKind("Deployment")),
		"/mutate--v1-pod":                            MutatePath(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}),
		"/validate-batch-tutorial-k8s-io-v1-cronjob": ValidatePath(schema.GroupVersionKind{Group: "batch.tutorial.k8s.io", Version: "v1", Kind: "CronJob"}),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
