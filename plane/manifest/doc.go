// Package manifest reads manifest files and applies them to a plane, or to any other
// cluster, server-side.
//
// Laws:
//   - CustomResourceDefinitions are applied first, then Namespaces, then the rest in
//     the order of the files; objects of a kind are never reordered.
//   - Apply returns when all that it applied is in effect: a new kind is served, in
//     discovery and in OpenAPI v3, before the objects that follow it are sent.
//   - Fields are owned by the manager that Apply is told and taken from others.
package manifest
