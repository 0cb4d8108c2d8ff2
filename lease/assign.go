package lease

import (
	"cmp"
	"slices"
)

// Shard returns to which of so many shards a key belongs. It depends on nothing
// but its arguments, so that all replicas of all versions agree.
func Shard(key string, shards int) int {
	return int(hash(key) % uint64(shards))
}

// hash is FNV-1a of the parts, each ended by a zero byte, with its bits mixed:
// FNV's own are too regular to be compared by size.
func hash(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, part := range parts {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
		h *= 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// assign returns which of the members is to hold each shard, "" for all when
// there are none. Every pair of a member and a shard has a weight, a hash of
// their names. The heaviest pairs come true first, but the members' numbers of
// shards differ by one at most.
//
// So everybody who knows the members comes to the same result, the load is even,
// and a member that comes or goes moves little more than its own share: plain
// rendezvous hashing, without the bound, would move nothing else at all, but
// gives one of four members more than six of sixteen shards on average.
func assign(members []string, ring string, shards int) []string {
	owners := make([]string, shards)
	if len(members) == 0 {
		return owners
	}
	type pair struct {
		member string
		shard  int
		weight uint64
	}
	var pairs []pair
	for _, member := range members {
		for shard := range shards {
			pairs = append(pairs, pair{member, shard, hash(member, shardName(ring, shard))})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.member, b.member), cmp.Compare(a.shard, b.shard))
	})
	each, more := shards/len(members), shards%len(members) // more members get one more
	held := map[string]int{}
	for _, p := range pairs {
		full := held[p.member] == each
		if owners[p.shard] != "" || held[p.member] > each || full && more == 0 {
			continue
		}
		if full {
			more--
		}
		owners[p.shard] = p.member
		held[p.member]++
	}
	return owners
}

// share is the largest number of shards that one of the members holds.
func share(shards, members int) int { return (shards + members - 1) / members }
