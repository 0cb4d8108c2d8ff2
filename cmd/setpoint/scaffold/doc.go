// Package scaffold writes operator projects: a new one, a kind added to one, webhooks added to a kind.
//
// Its laws:
//
//   - Decided first, written afterwards. A Plan holds the content of every file; what is wrong is found, all at once, before the first
//     byte is written.
//   - What a user has written stays. No file is made where one is. Files that exist are changed in three ways only: lines are inserted
//     before a comment that marks the place; PROJECT is written anew; and in generated files (the deep copies, the CRDs, the Role and
//     the webhook configurations) what is missing is added, as the generator would.
//   - All or nothing. When a file cannot be written, what was written before it is undone.
//   - What is generated is already there: the templates hold what the generator makes of them, so that a project compiles and
//     passes its tests at once, and `make generate` changes nothing.
//   - Nothing is asked of a network or of another program, and the same input gives the same files.
package scaffold
