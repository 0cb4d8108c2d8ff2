// Package edited holds the test that is edited and run again, with controller-runtime's envtest; see package edit.
package edited
