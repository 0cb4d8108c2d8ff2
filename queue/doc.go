// Package queue hands keys to workers: each key to one worker at a time, in a fair order, with the reasons why.
//
// A key names an object to reconcile. What happened to the object is no part of the key: however many changes arrive
// while a key waits, it runs once and its worker reads what is true by then. A worker calls Get, works, and calls Done;
// before Done it may call AddAfter (come back later), AddRateLimited (it failed) or Forget (it succeeded).
//
// # One key, one worker
//
// A key that was handed out is not handed out again before Done. A key that is added while it runs, once or often, runs
// once more after Done, with the causes of all these adds.
//
// # Order
//
// A key arrives when it becomes able to run: when it is added; when what was planned for it comes due; at Done, when it was
// added while it ran. Its class gives it a slack. Until arrival + slack it is early, from then on it is due.
//
//   - Due keys go before early ones. Among due keys of a flow the one that became due first goes first; this
//     order never changes.
//   - Early keys go when nothing is due, those of a flow in the order of arrival + slack. A key that is added again with a more
//     urgent class moves forward, never back.
//
// So a key found by listing is treated like a change that happens its slack later, except that it does not wait when
// there is nothing better to do: at start-up fresh changes overtake the listing, and the listing still gets its turn.
//
// # Fairness
//
// Due keys wait by flow, and the flows that have some take turns: each turn hands out one key. A flow that gets its first
// due key goes to the back of the turns, as does one that had its turn. From this follows the bound:
//
//	A key that becomes due behind r due keys of its own flow is handed out with the n-th dequeue after that
//	at the latest, where n = (r + 1) × A, and A is the largest number of flows that have due keys at a time meanwhile.
//
// It holds whatever else is added: a flow with a million keys that gets ten more for each one handed out counts
// as one flow. Early keys share in the same way what the due ones leave. The turns count keys, not time: a key
// whose work takes long holds its worker, and it is for the caller to bound that.
//
// A key that comes back again and again goes behind the others of its flow each time, and a key that fails waits longer each
// time. Neither delays a neighbour by more than one turn each time.
//
// # Retries and plans
//
// AddRateLimited counts a failure and retries after Base × 2ⁿ, at most Max (5 ms and 1000 s), n being the failures
// before it. Forget ends the series. An Add in the meantime runs at once and leaves the count alone: it says that
// something changed, not that it works. An overall Bucket limits how many retries of all keys start; the flows take turns for
// its tokens, and only retries need any. AddAfter makes a plan, counts nothing and needs no token. Of what is
// planned for a key the earliest time holds, and a run stands for all that was planned for later: a plan is renewed by the
// worker that still needs it. What is planned and not yet due is no cause of that run.
//
// # Limits
//
// No limit ever drops a key. A waiting key keeps MaxCauses different causes; the rest are counted in one more. Memory is
// in proportion to the keys that wait, run, have something planned, or have failures that nobody forgot.
//
// # Concurrency and life time
//
// A queue is one mutex around plain data. It has no goroutine. One timer, set only while something is planned, runs
// what is due when nobody else calls. Configured functions are called without the lock, except Flow. ShutDown drops what
// waits, wakes every Get and stops the timer; Drain also waits for what runs. The queue reads time from package time
// only and uses no randomness that could be seen: the same calls at the same times give the same order.
package queue
