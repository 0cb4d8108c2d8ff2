// Package protodecode decodes protobuf messages into the Go types of the Kubernetes API, faster than their
// generated Unmarshal methods do.
//
// The generated code copies every string of a message, each into an allocation of its own. Here strings are
// parts of the message, which is a Go string and therefore never changes; what is allocated is what cannot be
// shared: structs behind pointers, slices and maps. A Pod of 2.6 KB takes a fifth of the allocations.
//
// A [Decoder] is made once for a type, from the protobuf struct tags that the API's types have, and is the
// layout of a message in a table: field number, place in the struct, kind. It does what the generated code
// does; the package's test compares the two for every built-in kind.
//
// The same table tells which fields say nothing: [Decoder.Compact] leaves them out of what is kept.
//
// # Laws
//
// Sharing. Decoded strings keep the message alive. Byte slices are copies: nothing the caller may write to is
// shared.
//
// Fallback. A struct with a field the table cannot express (Time, Quantity and others with an Unmarshal of
// their own) is decoded by its own Unmarshal. So is a whole message that has anything unexpected in it.
//
// Unsafe. Fields are written through pointers computed from offsets that the reflect package gave for that very
// type, and only with the field's own kind.
package protodecode
