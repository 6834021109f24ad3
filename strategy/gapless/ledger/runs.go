package ledger

import (
	"slices"
)

// Run is the numbers From to To.
type Run struct{ From, To int64 }

// Len returns how many numbers the run has.
func (r Run) Len() int64 { return r.To - r.From + 1 }

func (r Run) overlaps(other Run) bool { return r.From <= other.To && other.From <= r.To }

// Count returns how many numbers runs have.
func Count(runs []Run) (n int64) {
	for _, r := range runs {
		n += r.Len()
	}
	return n
}

// join appends a run to ascending runs.
func join(runs []Run, r Run) []Run {
	if n := len(runs); n > 0 && runs[n-1].To+1 == r.From {
		runs[n-1].To = r.To
		return runs
	}
	return append(runs, r)
}

// without returns runs, which are ascending, without those of holes. It changes neither.
func without(runs, holes []Run) (left []Run) {
	for _, r := range runs {
		parts := []Run{r}
		for _, h := range holes {
			parts = slices.Concat(cut(parts, h)...)
		}
		left = append(left, parts...)
	}
	return left
}

// cut returns what is left of each run without a hole.
func cut(runs []Run, hole Run) (left [][]Run) {
	for _, r := range runs {
		if !r.overlaps(hole) {
			left = append(left, []Run{r})
			continue
		}
		if r.From < hole.From {
			left = append(left, []Run{{r.From, hole.From - 1}})
		}
		if r.To > hole.To {
			left = append(left, []Run{{hole.To + 1, r.To}})
		}
	}
	return left
}

// overlap reports whether a number is in both.
func overlap(runs, others []Run) bool { return Count(without(runs, others)) != Count(runs) }

// has reports whether a number is in one of the runs.
func has(runs []Run, n int64) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return r.From <= n && n <= r.To })
}

// available returns how many of the released numbers are at most limit, but no more than want.
func (s *State) available(limit, want int64) (n int64) {
	for _, r := range s.Released {
		if r.From > limit || n >= want {
			break
		}
		n += min(r.To, limit) - r.From + 1
	}
	return min(n, want)
}

// take removes n numbers from those that are released or were never handed out, the lowest first.
// There are as many: see available.
func (s *State) take(n, available int64) (runs []Run) {
	if s.rules.Has(RuleLowest) {
		available = 0
	}
	s.released -= available
	n -= available
	gone := 0
	for available > 0 {
		r := &s.Released[gone]
		k := min(available, r.Len())
		runs = join(runs, Run{r.From, r.From + k - 1})
		if available -= k; k == r.Len() {
			gone++
		} else {
			r.From += k
		}
	}
	s.Released = s.Released[gone:]
	if n > 0 {
		runs = join(runs, Run{s.Last + 1, s.Last + n})
		s.Last += n
	}
	return runs
}

// release adds numbers to those that are released.
func (s *State) release(runs []Run, at int64) {
	for _, r := range runs {
		i, _ := slices.BinarySearchFunc(s.Released, r.From, func(have Released, from int64) int { return int(min(max(have.From-from, -1), 1)) })
		s.released += r.Len()
		if i > 0 && s.Released[i-1].To+1 == r.From && s.Released[i-1].At == at {
			s.Released[i-1].To = r.To
			continue
		}
		s.Released = slices.Insert(s.Released, i, Released{r, at})
	}
}

// unrelease removes a number from those that are released: it is one of them.
func (s *State) unrelease(n int64) {
	i := slices.IndexFunc(s.Released, func(r Released) bool { return r.From <= n && n <= r.To })
	r := s.Released[i]
	var left []Released
	for _, parts := range cut([]Run{r.Run}, Run{n, n}) {
		left = append(left, Released{parts[0], r.At})
	}
	s.Released = slices.Replace(s.Released, i, i+1, left...)
	s.released--
}
