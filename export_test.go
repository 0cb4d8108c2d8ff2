package setpoint

import "time"

// SetWallClock replaces the wall clock by which m judges its leases.
func SetWallClock(m *Manager, wall func() time.Time) { m.wall = wall }

// ShardOf returns the shard of a request.
func ShardOf(m *Manager, r Request) int { return m.leads.shardOf(r) }

// HeldShards returns the shards that m holds.
func HeldShards(m *Manager) []int { return m.ring.Held() }
