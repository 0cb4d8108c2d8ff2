// Package event records Kubernetes Events (events.k8s.io/v1): what a controller
// did to an object, or could not do, for people who run kubectl describe.
//
// Laws:
//
//   - Recording never blocks and sends nothing itself. Sink.Run sends, in the
//     order of recording, and tries for a few seconds to send the rest when it
//     is stopped.
//   - What repeats is one Event. An event that equals an earlier one of the last
//     six minutes becomes the next of its series: the count grows, and the
//     server is told at most every ten seconds per series.
//   - Everything is bounded: events waiting to be sent, series remembered, and
//     events per object (25 at once, then one in 30 seconds). What is beyond is
//     dropped and counted in setpoint_events_dropped_total. Events are hints;
//     nothing may depend on them.
//   - Names are unique by randomness, not by time.
package event
