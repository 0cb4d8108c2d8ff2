package node

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

var (
	podRange  = netip.MustParsePrefix("10.128.0.0/9")
	hostRange = netip.MustParsePrefix("172.20.0.0/16")
)

// maxNodes is how many addresses hostRange has for nodes.
const maxNodes = 1<<16 - 2

// addresses hands out the addresses of Pods. One that was released is the last to
// be handed out again. Nothing listens on any of them.
type addresses struct {
	mu   sync.Mutex
	last uint32
	used map[netip.Addr]bool
}

func newAddresses() *addresses {
	return &addresses{used: map[netip.Addr]bool{}}
}

// take hands out a free address.
func (a *addresses) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := uint32(1) << (32 - podRange.Bits())
	for {
		a.last++
		if a.last >= size-1 {
			a.last = 1
		}
		if free := nth(podRange, a.last); !a.used[free] {
			a.used[free] = true
			return free.String()
		}
	}
}

// keep marks the address of a Pod that has one already.
func (a *addresses) keep(ip string) {
	if addr, err := netip.ParseAddr(ip); err == nil && podRange.Contains(addr) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.used[addr] = true
	}
}

func (a *addresses) release(ip string) {
	if addr, err := netip.ParseAddr(ip); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.used, addr)
	}
}

// nth is address number n of the range.
func nth(p netip.Prefix, n uint32) netip.Addr {
	base := p.Addr().As4()
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], binary.BigEndian.Uint32(base[:])+n)
	return netip.AddrFrom4(addr)
}
