// Package client reads and writes API objects: reads from the cache where it
// covers the kind, writes to the server.
package client
