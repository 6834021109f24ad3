package figures

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"iter"
	"math/bits"
)

// Documents hold points as base64, so that 15 minutes of a node fit into some kilobytes.

// errDamaged is returned for packed points that cannot be read.
var errDamaged = errors.New("the points are damaged")

// missing is a point that is not known.
const missing = -1

// mostInPoint bounds a point, so that sums do not overflow.
const mostInPoint = 1 << 50

// points are counts by interval, the oldest first.
type points []int64

// MarshalText implements [encoding.TextMarshaler].
func (p points) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 3*len(p))
	for _, v := range p {
		raw = binary.AppendUvarint(raw, uint64(min(v, mostInPoint)-missing))
	}
	return toText(raw), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *points) UnmarshalText(text []byte) error {
	raw, err := fromText(text)
	if err != nil {
		return err
	}
	*p = (*p)[:0]
	for len(raw) > 0 {
		v, n := binary.Uvarint(raw)
		if n <= 0 || v > mostInPoint-missing || len(*p) == intervals {
			return errDamaged
		}
		raw = raw[n:]
		*p = append(*p, int64(v)+missing)
	}
	return nil
}

// mostBuckets is how many buckets of durations there can be.
const mostBuckets = 32

// histogram is how many calls took how long in each interval, packed: for each interval, the set of
// the buckets with any, and a [rough] number for each of them.
type histogram []byte

// add adds the calls of the next interval.
func (h *histogram) add(counts *[mostBuckets]uint32) {
	set := uint64(0)
	for i, n := range counts {
		if n > 0 {
			set |= 1 << i
		}
	}
	*h = binary.AppendUvarint(*h, set)
	for _, n := range counts {
		if n > 0 {
			*h = append(*h, rough(n))
		}
	}
}

// each yields the calls of each interval, the oldest first; the array is used again. The last error
// is not nil if the histogram is damaged.
func (h histogram) each() iter.Seq2[*[mostBuckets]int64, error] {
	return func(yield func(*[mostBuckets]int64, error) bool) {
		var counts [mostBuckets]int64
		for interval, rest := 0, h; len(rest) > 0; interval++ {
			set, n := binary.Uvarint(rest)
			if n <= 0 || set >= 1<<mostBuckets || len(rest) < n+bits.OnesCount64(set) || interval == intervals {
				yield(nil, errDamaged)
				return
			}
			rest = rest[n:]
			clear(counts[:])
			for ; set != 0; set &= set - 1 {
				counts[bits.TrailingZeros64(set)] = smooth(rest[0])
				rest = rest[1:]
			}
			if !yield(&counts, nil) {
				return
			}
		}
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (h histogram) MarshalText() ([]byte, error) { return toText(h), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *histogram) UnmarshalText(text []byte) (err error) {
	if *h, err = fromText(text); err != nil {
		return err
	}
	for _, err = range h.each() {
	}
	return err
}

// rough returns a number in a byte: exact up to 16, otherwise off by at most a sixteenth. It has 3
// bits after the first one, and an exponent.
func rough(n uint32) byte {
	if n < 16 {
		return byte(n)
	}
	shift := bits.Len32(n) - 4
	top := (uint64(n) + 1<<(shift-1)) >> shift // 8 to 16
	return byte(8*shift) + byte(top)
}

// smooth is the inverse of rough.
func smooth(b byte) int64 {
	if b < 16 {
		return int64(b)
	}
	return int64(8+b%8) << (b/8 - 1)
}

func toText(raw []byte) []byte { return base64.RawStdEncoding.AppendEncode(nil, raw) }

func fromText(text []byte) ([]byte, error) {
	return base64.RawStdEncoding.AppendDecode(nil, text)
}
