// Package apitest is a small API server in memory for the tests of this module:
// an http.RoundTripper that keeps objects and answers discovery, get, list,
// watch, create, update, patch, delete and the status subresource. It has no
// sockets and no goroutines, so that it works inside a testing/synctest bubble.
//
// It imitates what controllers build on: one global revision, optimistic locking,
// generations, UIDs and their preconditions, finalizers and deletion time stamps,
// writes that change nothing, watches with initial events, bookmarks and history.
// It validates nothing, knows no admission and no garbage collection. An apply is
// a merge that creates and writes down which fields were applied; it removes none
// and meets no conflict. Any field of type string can be selected by, by its
// path. It answers in JSON and reads JSON and protobuf. What needs more is
// tested on the plane.
package apitest
