package simcri

import (
	"math/bits"
	"net/netip"
	"slices"
)

// maxAddresses bounds the pool, however wide the prefix is.
const maxAddresses = 1 << 16

// addressPool assigns the addresses of a prefix, by their offset from its first one. A released
// address is assigned again only after all others: a new pod does not get the address of one that
// has just gone.
//
// Offset 0 is the network, offset 1 the node's bridge, and the last of an IPv4 prefix is the
// broadcast; they are never assigned.
type addressPool struct {
	prefix netip.Prefix
	used   []uint64 // bit i: offset i is taken; made at the first use
	size   uint32   // offsets are below this
	next   uint32
	taken  int
}

func newAddressPool(p netip.Prefix) addressPool {
	p = p.Masked()
	size := uint32(maxAddresses)
	if host := p.Addr().BitLen() - p.Bits(); host < 16 {
		size = 1 << host
		if p.Addr().Is4() {
			size--
		}
	}
	return addressPool{prefix: p, size: size, next: 2}
}

// take assigns a free offset, 0 if there is none.
func (a *addressPool) take() uint32 {
	if a.used == nil {
		a.used = make([]uint64, (a.size+63)/64)
	}
	for range a.size {
		if a.next >= a.size {
			a.next = 2
		}
		at := a.next
		a.next++
		if at < a.size && a.used[at/64]&(1<<(at%64)) == 0 {
			a.used[at/64] |= 1 << (at % 64)
			a.taken++
			return at
		}
	}
	return 0
}

func (a *addressPool) free(offset uint32) {
	a.used[offset/64] &^= 1 << (offset % 64)
	a.taken--
}

// ip is the address at an offset.
func (a *addressPool) ip(offset uint32) netip.Addr {
	raw := a.prefix.Addr().As16()
	low, carry := bits.Add32(uint32(raw[12])<<24|uint32(raw[13])<<16|uint32(raw[14])<<8|uint32(raw[15]), offset, 0)
	if carry != 0 {
		panic("simcri: offset is outside of the prefix")
	}
	raw[12], raw[13], raw[14], raw[15] = byte(low>>24), byte(low>>16), byte(low>>8), byte(low)
	ip := netip.AddrFrom16(raw)
	if a.prefix.Addr().Is4() {
		return ip.Unmap()
	}
	return ip
}

// offset is that of an address in the pool; 0 if it is not in it.
func (a *addressPool) offset(ip netip.Addr) uint32 {
	if !a.prefix.Contains(ip) {
		return 0
	}
	low := func(ip netip.Addr) uint32 {
		raw := ip.As16()
		return uint32(raw[12])<<24 | uint32(raw[13])<<16 | uint32(raw[14])<<8 | uint32(raw[15])
	}
	return low(ip) - low(a.prefix.Addr())
}

// locate assigns a sandbox its address; false if there is none left.
func (r *Runtime) locate(s *sandbox, hostNetwork bool) bool {
	if hostNetwork {
		r.onHost = append(r.onHost, s)
		return true
	}
	if s.address = r.addresses.take(); s.address == 0 {
		return false
	}
	r.located[s.address] = s
	return true
}

func (r *Runtime) freeAddress(s *sandbox) {
	if s.address != 0 {
		r.addresses.free(s.address)
		delete(r.located, s.address)
		s.address = 0
		return
	}
	if i := slices.Index(r.onHost, s); i >= 0 {
		r.onHost = slices.Delete(r.onHost, i, i+1)
	}
}
