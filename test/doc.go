// Package test holds the tests that need both halves of Setpoint: operators built on the runtime, run against the
// control plane. They are written as a user of both would write them.
package test
