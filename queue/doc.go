// Package queue hands the keys of objects to workers: each key once at a time, in a fair order, with the reasons.
package queue
