// Package webhook serves admission and conversion webhooks, and keeps the
// certificates that API servers check.
//
// A webhook is a plain http.Handler made from a typed function: Validate, Mutate,
// Admission for what those do not offer, and NewConverter. A Server serves
// handlers over TLS; it is run on every replica. Its certificate comes from files
// (Files) or from an authority of its own (Authority) that keeps the bundle of
// CAs in webhook configurations and CustomResourceDefinitions, too.
//
// Laws of the handlers:
//
//   - A denial is an answer, a failure is not. An error that a function returns
//     denies the request, with the code, reason and causes that it carries. When
//     the webhook itself fails (a panic, its deadline, a review that it does not
//     understand) it answers with an HTTP error, and the configuration's
//     failurePolicy decides.
//   - A mutation changes what the function changed and nothing else. The patch
//     is the difference that the function made, applied to the object as it was
//     sent: fields that the Go type does not know, and empty ones that it would
//     add, are left alone.
//   - A conversion never touches metadata other than labels and annotations, keeps
//     the order of a batch, and fails as a whole, naming each object that failed.
//   - Every request has a deadline, no later than 30 seconds after it came, and a
//     bound on its size. No request ends the process.
//
// Laws of an Authority, which any number of replicas share by a Secret:
//
//   - The next CA signs at once, and the one before vouches for it: with a
//     certificate goes the chain that leads to it from each CA that has not
//     expired. So API servers may learn of a bundle late, by as much as is left
//     of a CA's life when it is replaced, and still trust every replica.
//   - A CA stays in the bundle until it has expired, and with it all that it
//     signed: a replica that is cut off from the API server keeps working.
//   - A bundle never goes back: targets are read before the Secret is, and
//     written only if they have not changed since.
//   - The private key of a CA is deleted when the next CA is made.
//   - Replicas agree by preconditions on the Secret, not by a leader: any may
//     take the next step, one does, and all follow.
//
// Nothing listens, reads files or asks the API server before Run, and nothing is
// left behind after it has returned.
package webhook
