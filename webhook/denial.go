package webhook

import (
	"errors"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// statusError is an error with a code and a reason.
type statusError struct {
	code   int32
	reason metav1.StatusReason
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }

// Status implements apierrors.APIStatus.
func (e *statusError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: e.code, Reason: e.reason, Message: e.err.Error()}
}

// denied returns the response for a request that err forbids.
func denied(err error) *admissionv1.AdmissionResponse {
	status := &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		of := api.Status()
		status = &of
	} else if fields := fieldErrors(err); fields != nil {
		status = &metav1.Status{
			Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Details: &metav1.StatusDetails{Causes: causes(fields)},
		}
	}
	status.Status = metav1.StatusFailure
	status.Message = err.Error()
	if status.Code == 0 {
		status.Code = http.StatusForbidden
	}
	return &admissionv1.AdmissionResponse{Result: status}
}

// fieldErrors returns the field errors that err consists of, or nil when there
// is anything else in it.
func fieldErrors(err error) field.ErrorList {
	var all field.ErrorList
	for _, leaf := range leaves(err) {
		of := (*field.Error)(nil)
		if !errors.As(leaf, &of) {
			return nil
		}
		all = append(all, of)
	}
	return all
}

// leaves takes joined and aggregated errors apart.
func leaves(err error) []error {
	var inner []error
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Errors() []error }:
		inner = e.Errors()
	default:
		return []error{err}
	}
	var all []error
	for _, e := range inner {
		all = append(all, leaves(e)...)
	}
	return all
}

func causes(errs field.ErrorList) []metav1.StatusCause {
	var all []metav1.StatusCause
	for _, err := range errs {
		all = append(all, metav1.StatusCause{Type: metav1.CauseType(err.Type), Message: err.ErrorBody(), Field: err.Field})
	}
	return all
}
