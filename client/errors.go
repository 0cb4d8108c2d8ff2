package client

import (
	"errors"
	"fmt"
	"net"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IgnoreNotFound returns nil for an error that says that the object does not exist, else err: for
// reads whose object may be missing and for deletes.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// explain adds to an error what failed, on which object, and where one can know it, what to do.
// The error's kind stays recognisable by errors.As and package apierrors.
func explain(what string, t target, err error) error {
	if err == nil {
		return nil
	}
	if fix := fixFor(what, err); fix != "" {
		return fmt.Errorf("%s %s: %w: %s", what, t, err, fix)
	}
	return fmt.Errorf("%s %s: %w", what, t, err)
}

func fixFor(what string, err error) string {
	if isOtherUID(err) {
		return "the object is another one (UID) than was read"
	}
	if !apierrors.IsConflict(err) {
		return ""
	}
	switch what {
	case "delete":
		return "a precondition failed: the object is another one (UID) or was changed (resourceVersion) since it was read"
	case "update", "update status":
		return "the object was changed since it was read: reconcile again from a fresh read, or write only the fields you own with Patch or Apply"
	case "patch", "patch status":
		return "the object was changed since the version that the patch requires: reconcile again from a fresh read"
	case "apply", "apply status":
		if apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
			return "another manager owns these fields: leave them out, or take them over with ForceOwnership"
		}
		return "the object is another one (UID) or was changed (resourceVersion) since it was read"
	}
	return ""
}

// isOtherUID recognises how the server refuses a patch that names another UID: as a change of the UID.
func isOtherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// outcomeUnknown reports whether the write may have been done although it failed with err. A
// refusal by the server was not done; what broke on the way or inside the server may have been.
func outcomeUnknown(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= 500
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	return true
}
