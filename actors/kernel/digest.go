package kernel

import (
	"encoding/binary"
	"math/bits"
)

// digest is a hash of 64 bits over words, for telling runs apart and not against an adversary. Each step is a bijection
// of the sum, so two inputs of the same length that differ in one word always have different digests.
type digest uint64

// digestPrime is odd, which makes the multiplication a bijection: 2^64 divided by the golden ratio.
const digestPrime = 0x9e3779b97f4a7c15

// word is the sum with one more word. It is a value, so that the compiler keeps it in a register.
func (d digest) word(w uint64) digest {
	s := (uint64(d) ^ w) * digestPrime
	return digest(bits.RotateLeft64(s^s>>32, 17))
}

// text adds the length first: "a", "bc" is not "ab", "c".
func (d digest) text(s string) digest {
	d = d.word(uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		// The compiler makes one load of it.
		d = d.word(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56)
	}
	if len(s) > 0 {
		var tail [8]byte
		copy(tail[:], s)
		d = d.word(binary.LittleEndian.Uint64(tail[:]))
	}
	return d
}

// there adds whether there is something.
func (d digest) there(is bool) digest {
	if is {
		return d.word(1)
	}
	return d.word(0)
}

// sum spreads the last word over all bits.
func (d digest) sum() uint64 { return uint64(d.word(0).word(0)) }
