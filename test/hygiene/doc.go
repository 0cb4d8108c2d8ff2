// Package hygiene has no code of its own: its tests hold the rules of the repository that a compiler
// does not, namely which package may import which, what module 1 may depend on, and that every
// package says what it is for.
package hygiene
