// Package edited holds the test that is edited and run again, with planetest; see package edit.
package edited
