// Package apply turns Go objects into what server-side apply should be given: the fields that the
// author means to own, and no others.
//
// Server-side apply makes the caller the owner of every field in the request. A Go struct says
// more than its author does: a nested struct that was never touched still encodes as an empty
// object, a nil slice as null, and an object that was read from the server carries what the server
// wrote. [From] removes that noise:
//
//   - status, which belongs to the status subresource ([StatusFrom] gives that part alone);
//   - metadata that the server sets: creationTimestamp, generation,
//     resourceVersion, managedFields, selfLink and the deletion's fields;
//   - nulls, and empty objects that come from a struct rather than from a pointer or a map;
//   - zero structs in fields that are marked omitempty, which encoding/json does not omit.
//
// It keeps the UID, by which an apply changes that object only, pointers to empty structs
// (emptyDir: {}), and zero values that the type's author chose to encode always (a number or
// string without omitempty).
//
// The functions are pure; the objects they are given are not changed, and what they return shares
// nothing with them.
package apply
