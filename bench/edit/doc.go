// Package edit measures what a developer of an operator waits for: one line of a test changes, and the test runs again.
//
// The same test is written twice: with planetest (ours) and with envtest (peer). Both start a server, create a
// ConfigMap and read it back. They are built with the tag "edit" only.
package edit
