package setpoint

import (
	"time"

	"github.com/setpoint-dev/setpoint/queue"
)

// SetWallClock replaces the wall clock by which m judges its leases.
func SetWallClock(m *Manager, wall func() time.Time) { m.wall = wall }

// ShardOf returns the shard of a request.
func ShardOf(m *Manager, r Request) int { return m.leads.shardOf(r) }

// HeldShards returns the shards that m holds.
func HeldShards(m *Manager) []int { return m.ring.Held() }

// GiveUp has c let go of a request as if its shard were not held.
func GiveUp(c *Controller, r Request) {
	c.siteOf(r.Cluster).giveUp(r, []queue.Cause{{Source: "External"}})
}
