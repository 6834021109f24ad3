package obfuscate

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/seqd/seqd"
)

// The versions of the algorithm. They are part of the shape: if the ID of any number changes, that
// is another version. docs/adr/0062-obfuscation-of-each-key.md says which biz types have which.
const (
	// oneForAll has one permutation for all keys and periods of a biz type.
	oneForAll = 1
	// oneForEach has another one for each key in each period.
	oneForEach = 2
)

// The number of rounds of oneForAll, which is even: each changes one half of the number, in turn.
// docs/adr/0012-obfuscation.md explains it. Sizes up to smallSize, where a round hides less, have
// more rounds, and a table that makes up for their cost.
const (
	rounds      = 8
	smallRounds = 32
	smallSize   = 1024
)

// permutation is a keyed bijection of the numbers 0 to size − 1. It is a Feistel network on the
// pairs (l, r) with 0 ≤ l < a, 0 ≤ r < b, which represent l·b + r. It is immutable.
//
// a is the square root of size, rounded up, and b is as small as a·b ≥ size allows. So fewer than a
// of the a·b pairs are outside the domain. If the network leads to one of them, it is applied again
// (cycle walking). That practically never happens if the domain is large, and never if size is a
// square.
type permutation struct {
	size, a, b uint64
	k0, k1     uint64 // the key of SipHash
	rounds     uint64
	table      []uint16 // the image of each number, for sizes up to smallSize
}

// newPermutation returns the permutation oneForAll of a key, which has any length. size is 2 to
// 10^19. Permutations of the same key and different sizes are unrelated.
func newPermutation(key []byte, size uint64) *permutation {
	p := feistel(size, rounds).keyed(derive(oneForAll, "permutation", size, key))
	if size <= smallSize {
		p.rounds = smallRounds
		table := make([]uint16, size)
		for x := range table {
			table[x] = uint16(p.forward(uint64(x)))
		}
		p.table = table
	}
	return p
}

// feistel returns a permutation that has no key yet.
func feistel(size, rounds uint64) *permutation {
	a := rootUp(size)
	return &permutation{size: size, a: a, b: (size-1)/a + 1, rounds: rounds}
}

// keyed returns p with the key of SipHash that begins a hash.
func (p *permutation) keyed(derived [sha256.Size]byte) *permutation {
	made := *p
	made.k0, made.k1 = binary.LittleEndian.Uint64(derived[:]), binary.LittleEndian.Uint64(derived[8:])
	return &made
}

// family is the permutations oneForEach of a key: for each period and key of a biz type one, which
// says nothing about the others. It is immutable.
type family struct {
	base   *permutation // without a key
	secret [sha256.Size]byte
}

// newFamily returns the family of a key, which has any length. size is 2 to 10^19.
func newFamily(key []byte, size uint64) *family {
	return &family{feistel(size, enoughRounds(size)), derive(oneForEach, "family", size, key)}
}

// of returns the permutation for a period and a key of a biz type, 0 and "" if it has none. Its key
// is the SHA-256 of the secret (32 bytes), the period (8 bytes) and the key.
func (f *family) of(period seqd.Period, key string) *permutation {
	text := make([]byte, 0, sha256.Size+8+seqd.MaxKeyLength)
	text = append(text, f.secret[:]...)
	text = binary.BigEndian.AppendUint64(text, uint64(period))
	return f.base.keyed(sha256.Sum256(append(text, key...)))
}

// Whoever sees IDs of many keys has pairs of many permutations, and attacks on Feistel networks add
// up what they learn of each. The best ones known for small domains need about M^(r/2 − 1.5) pairs
// of number and ID if each may come from another permutation, for r rounds and halves of M values
// (Tim Beyne, Linear Cryptanalysis of FF3-1 and FEA, CRYPTO 2021). securityBits asks that this be
// 2^64, more than all numbers of a biz type. The limits are the rounds of FF1 (NIST SP 800-38G),
// and what oneForAll has for the smallest domains, where the bound says nothing.
const (
	securityBits = 64
	leastRounds  = 10
	mostRounds   = 32
)

// enoughRounds returns the least even number of rounds that the bound asks for. No size of the
// settings is so near to a limit that a rounding error could change it.
func enoughRounds(size uint64) uint64 {
	half := math.Log2(float64(feistel(size, 0).b))
	r := uint64(leastRounds)
	for r < mostRounds && half*(float64(r)/2-1.5) < securityBits {
		r += 2
	}
	return r
}

// derive hashes a key for one purpose of a version, so that knowing one derived key says nothing
// about the others.
func derive(version int, purpose string, size uint64, key []byte) [sha256.Size]byte {
	text := append(fmt.Appendf(nil, "seqd obfuscate %d ", version), purpose...)
	text = append(text, 0)
	text = binary.BigEndian.AppendUint64(text, size)
	return sha256.Sum256(append(text, key...))
}

// rootUp returns the square root of n, rounded up. n is 1 to 10^19.
func rootUp(n uint64) uint64 {
	root := uint64(math.Sqrt(float64(n))) // off by one at most
	for root > 0 && root*root >= n {
		root--
	}
	for root*root < n {
		root++
	}
	return root
}

// forward returns the image of x, which is below size.
func (p *permutation) forward(x uint64) uint64 {
	if p.table != nil {
		return uint64(p.table[x])
	}
	for {
		l, r := x/p.b, x%p.b
		for i := uint64(0); i < p.rounds; i += 2 {
			l = add(l, p.below(p.a, i, r), p.a)
			r = add(r, p.below(p.b, i+1, l), p.b)
		}
		if x = l*p.b + r; x < p.size {
			return x
		}
	}
}

// backward is the inverse of forward. y is below size.
func (p *permutation) backward(y uint64) uint64 {
	for {
		l, r := y/p.b, y%p.b
		for i := p.rounds; i > 0; i -= 2 {
			r = add(r, p.b-p.below(p.b, i-1, l), p.b)
			l = add(l, p.a-p.below(p.a, i-2, r), p.a)
		}
		if y = l*p.b + r; y < p.size {
			return y
		}
	}
}

// add returns (x + y) mod n; x < n, y ≤ n, n ≤ 2^32.
func add(x, y, n uint64) uint64 {
	sum := x + y
	if sum >= n {
		sum -= n
	}
	return sum
}

// below is the keyed function of a round. It returns a value below n, which is at most 2^32. No
// value's probability is off by more than 2^-32 of what it should be.
func (p *permutation) below(n, round, half uint64) uint64 {
	value, _ := bits.Mul64(sip13(p.k0, p.k1, half|round<<32), n)
	return value
}

// sip13 is SipHash-1-3 (Aumasson and Bernstein, SipHash: a fast short-input PRF) of the five low
// bytes of message, in little-endian order. The other bytes are zero. Such a short message is one
// block: one round of compression and three at the end.
func sip13(k0, k1, message uint64) uint64 {
	const length = 5
	message |= length << 56
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261, k1^0x7465646279746573^message
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0^message, v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v1
	v0 += v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
