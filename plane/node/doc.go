// Package node plays the nodes and the scheduler of a cluster.
package node
