package obfuscate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// power returns base^exponent.
func power(base uint64, exponent int) uint64 {
	n := uint64(1)
	for range exponent {
		n *= base
	}
	return n
}

// sizes returns the sizes of all settings: 19 of digits, then 63 of bits.
func sizes() (list []uint64) {
	for digits := 1; digits <= mostDigits; digits++ {
		list = append(list, power(10, digits))
	}
	for n := 1; n <= mostBits; n++ {
		list = append(list, 1<<n)
	}
	return list
}

// bijective fails unless a permutation maps 0 to size − 1 one-to-one onto themselves and back.
func bijective(t *testing.T, key string, size uint64) {
	t.Helper()
	p := newPermutation([]byte(key), size)
	seen := make([]bool, size)
	for x := range size {
		y := p.forward(x)
		if y >= size || seen[y] {
			t.Fatalf("size %d, key %q: %d becomes %d, which is too large or taken", size, key, x, y)
		}
		seen[y] = true
		if back := p.backward(y); back != x {
			t.Fatalf("size %d, key %q: %d becomes %d, which goes back to %d", size, key, x, y, back)
		}
	}
}

func TestBijectionOnEverySmallSize(t *testing.T) {
	for size := uint64(2); size <= 2100; size++ {
		bijective(t, "a key", size)
	}
	for _, key := range []string{"another key", "a third key", "\x00", ""} {
		for size := uint64(2); size <= 130; size++ {
			bijective(t, key, size)
		}
	}
}

func TestBijectionOnEverySmallSetting(t *testing.T) {
	for digits := 1; digits <= 5; digits++ {
		bijective(t, "a key", power(10, digits))
	}
	for n := 1; n <= 16; n++ {
		bijective(t, "a key", 1<<n)
	}
}

// TestBijectionOnLargeSizes checks windows of domains that are too large to enumerate: nothing
// collides, and everything can be reversed.
func TestBijectionOnLargeSizes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range sizes() {
		p := newPermutation([]byte("a key"), size)
		start := random.Uint64N(size)
		seen := make(map[uint64]uint64)
		for i := range min(size, 2000) {
			x := (start + i) % size
			if i%2 == 1 {
				x = random.Uint64N(size)
			}
			y := p.forward(x)
			if other, taken := seen[y]; y >= size || taken && other != x {
				t.Fatalf("size %d: %d becomes %d, which is too large or stands for %d", size, x, y, other)
			}
			seen[y] = x
			if back := p.backward(y); back != x {
				t.Fatalf("size %d: %d becomes %d, which goes back to %d", size, x, y, back)
			}
		}
	}
}

// TestHalves checks that the halves cover the domain with as little excess as possible, and fit
// into 32 bits, as a round requires.
func TestHalves(t *testing.T) {
	list := append(sizes(), 3, 5, 7, 1023, 1024, 1025, 1<<62+1, 1<<63-1, 1<<63, power(10, 19)-1)
	for _, size := range list {
		p := newPermutation(nil, size)
		if p.a > 1<<32 || p.b > p.a || p.a*p.b < size || p.a*p.b-size >= p.a {
			t.Errorf("size %d: halves of %d and %d", size, p.a, p.b)
		}
		if root := rootUp(size); root*root < size || (root-1)*(root-1) >= size {
			t.Errorf("the root of %d is not %d", size, root)
		}
	}
}

// TestSipHash checks a value of the reference implementation, for the key 0 and the message 0, 1,
// 2, 3, 4.
func TestSipHash(t *testing.T) {
	must.Equal(t, sip13(0, 0, 0x0403020100), 0x5abe2169dff36275)
}

// TestKeys checks that permutations of one key and different sizes, and of different keys, are
// unrelated.
func TestKeys(t *testing.T) {
	size := power(10, 9)
	seen := make(map[uint64]string)
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		y := newPermutation([]byte(key), size).forward(1)
		if other, taken := seen[y]; taken {
			t.Errorf("%q and %q make %d of 1", key, other, y)
		}
		seen[y] = key
	}
	if newPermutation([]byte("key"), size).k0 == newPermutation([]byte("key"), size+1).k0 {
		t.Error("two sizes have the same key of rounds")
	}
}

// golden are display forms since the first release. If one changes, issued IDs are repeated: such a
// change needs a new version, and the old algorithm must stay.
var golden = []struct {
	digits, bits int
	key          string
	number, want uint64
}{
	{1, 0, "correct horse", 1, 9},
	{1, 0, "correct horse", 2, 2},
	{1, 0, "correct horse", 3, 5},
	{1, 0, "correct horse", 9, 3},
	{1, 0, "another key", 1, 6},
	{2, 0, "correct horse", 1, 98},
	{2, 0, "correct horse", 33, 46},
	{2, 0, "another key", 1, 77},
	{3, 0, "correct horse", 1, 931},
	{3, 0, "correct horse", 333, 25},
	{3, 0, "another key", 1, 776},
	{4, 0, "correct horse", 1, 5831},
	{4, 0, "correct horse", 3333, 2061},
	{4, 0, "another key", 1, 6647},
	{5, 0, "correct horse", 1, 32140},
	{5, 0, "correct horse", 33333, 18900},
	{5, 0, "another key", 1, 97849},
	{8, 0, "correct horse", 1, 7227013},
	{8, 0, "correct horse", 33333333, 62124607},
	{8, 0, "another key", 1, 36241112},
	{9, 0, "correct horse", 1, 655450154},
	{9, 0, "correct horse", 333333333, 992440627},
	{9, 0, "another key", 1, 792199090},
	{10, 0, "correct horse", 1, 8645890766},
	{10, 0, "correct horse", 3333333333, 6425879901},
	{10, 0, "another key", 1, 8817798859},
	{16, 0, "correct horse", 1, 5779288150999144},
	{16, 0, "correct horse", 3333333333333333, 2195984269987343},
	{16, 0, "another key", 1, 9256491575382043},
	{19, 0, "correct horse", 1, 4267689563589940109},
	{19, 0, "correct horse", 3333333333333333333, 5533147986337711213},
	{19, 0, "another key", 1, 6339087658988536260},
	{0, 1, "correct horse", 0, 1},
	{0, 1, "correct horse", 1, 0},
	{0, 7, "correct horse", 1, 61},
	{0, 7, "correct horse", 42, 4},
	{0, 7, "correct horse", 127, 68},
	{0, 10, "correct horse", 1, 478},
	{0, 10, "correct horse", 341, 1018},
	{0, 10, "correct horse", 1023, 236},
	{0, 11, "correct horse", 1, 20},
	{0, 11, "correct horse", 682, 732},
	{0, 11, "correct horse", 2047, 711},
	{0, 32, "correct horse", 1, 3441182563},
	{0, 32, "correct horse", 1431655765, 1126928788},
	{0, 32, "correct horse", 4294967295, 2678853763},
	{0, 53, "correct horse", 1, 5169989543435612},
	{0, 53, "correct horse", 3002399751580330, 8654089157086624},
	{0, 53, "correct horse", 9007199254740991, 1147916816569227},
	{0, 63, "correct horse", 1, 8065584994713222325},
	{0, 63, "correct horse", 3074457345618258602, 3009650307236442723},
	{0, 63, "correct horse", 9223372036854775807, 5896600976734947649},
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		s := Settings{Digits: g.digits, Bits: g.bits}
		p := newPermutation([]byte(g.key), s.size())
		if got := p.forward(g.number); got != g.want {
			t.Errorf("{%d, %d, %q, %d, %d},", g.digits, g.bits, g.key, g.number, got)
		}
		must.Equal(t, p.backward(g.want), g.number, "digits %d, bits %d, key %q: %d goes back to", g.digits, g.bits, g.key, g.want)
	}
}

func FuzzPermute(f *testing.F) {
	f.Add([]byte("a key"), uint64(10), uint64(1))
	f.Add([]byte{}, power(10, 19), uint64(1<<63))
	f.Add([]byte{0}, uint64(1<<63), uint64(1<<62))
	f.Fuzz(func(t *testing.T, key []byte, size, x uint64) {
		size = 2 + size%(power(10, 19)-1)
		x %= size
		p := newPermutation(key, size)
		y := p.forward(x)
		if y >= size {
			t.Fatalf("%d becomes %d, not below %d", x, y, size)
		}
		if back := p.backward(y); back != x {
			t.Fatalf("%d becomes %d, which goes back to %d", x, y, back)
		}
	})
}

func BenchmarkForward(b *testing.B) {
	for digits := 1; digits <= mostDigits; digits++ {
		b.Run(fmt.Sprintf("digits=%d", digits), func(b *testing.B) {
			p := newPermutation([]byte("a key"), power(10, digits))
			b.ReportAllocs()
			for x := uint64(0); b.Loop(); {
				x = p.forward(x)
			}
		})
	}
}
