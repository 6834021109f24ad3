package obfuscate

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
)

// The statistics of docs/adr/0012-obfuscation.md. Each returns by how many standard deviations its
// worst value differs from the expected one. All are deterministic.
var statistics = []struct {
	name    string
	finds   bool // that 2 rounds are too few
	measure func(rounds uint64) float64
}{
	{"neighbours, 10^4", true, func(rounds uint64) float64 { return neighbours(rounds, 1e4) }},
	{"neighbours, 10^5", true, func(rounds uint64) float64 { return neighbours(rounds, 1e5) }},
	{"neighbours, 10^8", true, func(rounds uint64) float64 { return neighbours(rounds, 1e8) }},
	{"neighbours, 10^19", false, func(rounds uint64) float64 { return neighbours(rounds, 1e19) }},
	{"digits, 10^8", true, func(rounds uint64) float64 { return digitsOf(rounds, 8) }},
	{"digits, 10^15", false, func(rounds uint64) float64 { return digitsOf(rounds, 15) }},
	{"serial correlation, 10^8", false, func(rounds uint64) float64 { return serial(rounds, 1e8) }},
	{"serial correlation, 2^53", false, func(rounds uint64) float64 { return serial(rounds, 1<<53) }},
	{"avalanche, 2^20", true, func(rounds uint64) float64 { return avalanche(rounds, 20) }},
	{"avalanche, 2^63", false, func(rounds uint64) float64 { return avalanche(rounds, 63) }},
	{"fixed points, 10^4", false, func(rounds uint64) float64 { return fixedPoints(rounds, 1e4) }},
	{"differences over keys, 10^4", true, func(rounds uint64) float64 { return keyed(rounds, 1e4) }},
	{"differences over keys, 10^9", false, func(rounds uint64) float64 { return keyed(rounds, 1e9) }},
}

// tooFar is the largest accepted number of standard deviations.
const tooFar = 5

// reduced returns a permutation with another number of rounds, and without a table.
func reduced(key string, size, rounds uint64) *permutation {
	p := newPermutation([]byte(key), size)
	p.rounds, p.table = rounds, nil
	return p
}

// uniform returns how far counts are from equal.
func uniform(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	want, chi := float64(total)/float64(len(counts)), 0.0
	for _, n := range counts {
		chi += (float64(n) - want) * (float64(n) - want) / want
	}
	free := float64(len(counts) - 1)
	return math.Abs(chi-free) / math.Sqrt(2*free)
}

// bin returns which of n equal parts of a domain contains a value.
func bin(value, size uint64, n int) int {
	high, low := bits.Mul64(value, uint64(n))
	quotient, _ := bits.Div64(high, low, size)
	return int(quotient)
}

// distance returns (to − from) mod size.
func distance(from, to, size uint64) uint64 {
	if to >= from {
		return to - from
	}
	return size - (from - to)
}

// neighbours tests the distance between the IDs of a number and the k-th after it: all distances
// are equally likely.
func neighbours(rounds, size uint64) (worst float64) {
	p := reduced("neighbours", size, rounds)
	for _, k := range []uint64{1, 2, 10, 100} {
		counts := make([]int, 50)
		for x := uint64(1); x < min(size, 50_000)-k; x++ {
			counts[bin(distance(p.forward(x), p.forward(x+k), size), size, len(counts))]++
		}
		worst = max(worst, uniform(counts))
	}
	return worst
}

// digitsOf tests the IDs of consecutive numbers: in each place all digits are equally frequent, and
// so are all pairs of adjacent digits.
func digitsOf(rounds uint64, digits int) (worst float64) {
	p := reduced("digits", power(10, digits), rounds)
	single, pairs := make([][]int, digits), make([][]int, digits-1)
	for i := range single {
		single[i] = make([]int, 10)
	}
	for i := range pairs {
		pairs[i] = make([]int, 100)
	}
	for x := uint64(1); x <= 50_000; x++ {
		y := p.forward(x)
		for i := range digits {
			single[i][y%10]++
			if i < digits-1 {
				pairs[i][y%100]++
			}
			y /= 10
		}
	}
	for _, counts := range append(single, pairs...) {
		worst = max(worst, uniform(counts))
	}
	return worst
}

// serial tests that the ID of a number is not correlated with those of the next ones.
func serial(rounds, size uint64) (worst float64) {
	p := reduced("serial", size, rounds)
	ids := make([]float64, 50_000)
	for x := range ids {
		ids[x] = float64(p.forward(uint64(x)+1))/float64(size) - 0.5
	}
	for _, lag := range []int{1, 2, 10} {
		sum := 0.0
		for i := range len(ids) - lag {
			sum += ids[i] * ids[i+lag]
		}
		// the variance of a uniform value is 1/12
		worst = max(worst, math.Abs(sum)*12/math.Sqrt(float64(len(ids)-lag)))
	}
	return worst
}

// avalanche tests that each bit of a number changes each bit of the ID in half of all cases.
func avalanche(rounds uint64, width int) (worst float64) {
	const samples = 2000
	p := reduced("avalanche", 1<<width, rounds)
	for in := range width {
		flips := make([]int, width)
		for i := uint64(1); i <= samples; i++ {
			x := i>>in<<(in+1) | i&(1<<in-1) // that bit is 0, so no pair counts twice
			changed := p.forward(x) ^ p.forward(x^1<<in)
			for out := range flips {
				flips[out] += int(changed >> out & 1)
			}
		}
		for _, n := range flips {
			worst = max(worst, math.Abs(float64(n)-samples/2)/math.Sqrt(samples/4))
		}
	}
	return worst
}

// fixedPoints tests how many numbers are their own IDs: one per key on average.
func fixedPoints(rounds, size uint64) float64 {
	const keys = 100
	found := 0
	for key := range keys {
		p := reduced(fmt.Sprint("fixed ", key), size, rounds)
		for x := range size {
			if p.forward(x) == x {
				found++
			}
		}
	}
	return math.Abs(float64(found)-keys) / math.Sqrt(keys)
}

// keyed tests over many keys that the ID of a number is uniformly distributed, and so is its
// distance to the ID of the next number.
func keyed(rounds, size uint64) float64 {
	places, moves := make([]int, 100), make([]int, 100)
	for key := range 20_000 {
		p := reduced(fmt.Sprint("keyed ", key), size, rounds)
		y := p.forward(1)
		places[bin(y, size, len(places))]++
		moves[bin(distance(y, p.forward(2), size), size, len(moves))]++
	}
	return max(uniform(places), uniform(moves))
}

func TestStatistics(t *testing.T) {
	for _, s := range statistics {
		if off := s.measure(rounds); off > tooFar {
			t.Errorf("%s: %.1f standard deviations off", s.name, off)
		}
	}
}

// TestStatisticsFindFewRounds checks that the statistics detect too few rounds. With -v it prints
// the table of the ADR.
func TestStatisticsFindFewRounds(t *testing.T) {
	for _, s := range statistics {
		if off := s.measure(2); s.finds && off <= tooFar {
			t.Errorf("%s does not find that 2 rounds are too few: %.1f", s.name, off)
		}
		for n := uint64(2); n <= 10 && testing.Verbose(); n += 2 {
			t.Logf("%-28s %2d rounds: %8.1f", s.name, n, s.measure(n))
		}
	}
}

// TestSmallDomains checks that on the smallest domains all permutations are equally likely over the
// keys, as far as a test can tell: all orders of five IDs, and each pair of ten.
func TestSmallDomains(t *testing.T) {
	for _, r := range []uint64{8, smallRounds} {
		orders, pairs := make(map[string]int), make([]int, 100)
		for key := range 12_000 {
			p, q := reduced(fmt.Sprint("small ", key), 5, r), reduced(fmt.Sprint("small ", key), 10, r)
			order := ""
			for x := range uint64(5) {
				order += fmt.Sprint(p.forward(x))
			}
			orders[order]++
			pairs[10*q.forward(1)+q.forward(2)]++
		}
		var counts, different []int
		for _, n := range orders {
			counts = append(counts, n)
		}
		for i, n := range pairs {
			if i%11 != 0 { // if both were the same
				different = append(different, n)
			}
		}
		t.Logf("%2d rounds: orders of 5 %5.1f, pairs of 10 %5.1f", r, uniform(counts), uniform(different))
		if off := max(uniform(counts), uniform(different)); r == smallRounds && (off > tooFar || len(counts) != 120) {
			t.Errorf("%.1f standard deviations off, %d orders", off, len(counts))
		}
	}
}
