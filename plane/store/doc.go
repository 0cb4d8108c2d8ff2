// Package store keeps the objects of the plane's API server in memory.
package store
