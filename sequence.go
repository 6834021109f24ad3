package seqd

import (
	"iter"
	"slices"
	"strconv"
	"time"
)

// Run is Count numbers: First, First+Stride, First+2·Stride and so on.
type Run struct {
	First  int64
	Stride int64
	Count  int
}

// Sequence holds the numbers of one request in the order in which they were taken, and how each of
// them is shown.
//
// The numbers are kept as runs. The display form of a number is its decimal digits, unless a plugin
// changes it with [Sequence.Show]. The numbers themselves never change. A Sequence must not be
// copied and is not safe for concurrent use. [Sequence.Reset] keeps its memory for the next
// request.
type Sequence struct {
	runs   []Run
	count  int
	period Period
	marked bool // about is not zero
	about  about
	// The display forms one after another, and where each ends. Empty if all are decimal digits.
	text, spareText []byte
	ends, spareEnds []int
	digits          [20]byte // for the digits of one number
	pause           func()   // see Pace
}

// about is what few sequences have.
type about struct {
	key   string
	asker string
	made  time.Time
	stamp [2]int64
}

// mark returns what is to be changed of about.
func (s *Sequence) mark() *about {
	s.marked = true
	return &s.about
}

// paceOf is after how many numbers those who show them pause.
const paceOf = 16

// Pace makes [Sequence.Show] and [Sequence.Displays] call pause after every few numbers of a long
// sequence, so that whoever shows it can give way to others. It lasts for as long as s, also over
// [Sequence.Reset].
func (s *Sequence) Pace(pause func()) { s.pause = pause }

// paces calls pause if it is time after i numbers.
func (s *Sequence) paces(i int) {
	if i%paceOf == 0 && s.pause != nil {
		s.pause()
	}
}

// Reset empties the sequence.
func (s *Sequence) Reset() {
	s.runs, s.count, s.period = s.runs[:0], 0, 0
	if s.marked { // most are not
		s.marked, s.about = false, about{}
	}
	s.text, s.ends = s.text[:0], s.ends[:0]
}

// Add appends count numbers: first, first+stride and so on. Strategies call it. count must be at
// least 1.
func (s *Sequence) Add(first int64, count int, stride int64) {
	if n := len(s.runs); n > 0 {
		last := &s.runs[n-1]
		if last.Stride == stride && last.First+int64(last.Count)*stride == first {
			last.Count += count
			s.count += count
			return
		}
	}
	s.runs = append(s.runs, Run{First: first, Stride: stride, Count: count})
	s.count += count
}

// For sets the key that the numbers are counted for. It is called before the strategy, on an empty
// sequence.
func (s *Sequence) For(key string) {
	if key != "" || s.marked {
		s.mark().key = key
	}
}

// Key returns the key that the numbers are counted for, "" if the biz type is not keyed.
func (s *Sequence) Key() string { return s.about.key }

// AskedBy sets the [Caller.OwnerID] of the caller who asks for numbers of a key or of a [Ledger]. It
// is called after [Sequence.For].
func (s *Sequence) AskedBy(caller string) { s.mark().asker = caller }

// Asker returns what [Sequence.AskedBy] set, "" if the biz type is neither keyed nor of a [Ledger].
func (s *Sequence) Asker() string { return s.about.asker }

// MadeAt sets when the numbers were made, so that they are shown with the same time again.
func (s *Sequence) MadeAt(t time.Time) { s.mark().made = t }

// Made returns when the numbers were made, the zero time if that is now.
func (s *Sequence) Made() time.Time { return s.about.made }

// Stamp sets what a [Ledger] must know of the numbers if they are returned.
func (s *Sequence) Stamp(a, b int64) { s.mark().stamp = [2]int64{a, b} }

// Stamped returns what Stamp set.
func (s *Sequence) Stamped() (a, b int64) { return s.about.stamp[0], s.about.stamp[1] }

// In sets the period of the numbers. A strategy whose numbers reset calls it, so that the date that
// is shown fits the number.
func (s *Sequence) In(p Period) { s.period = p }

// Period returns the period set by [Sequence.In], 0 if numbers never reset.
func (s *Sequence) Period() Period { return s.period }

// Len returns how many numbers the sequence holds.
func (s *Sequence) Len() int { return s.count }

// Runs returns the numbers as runs. The slice is valid until the next Reset or Add.
func (s *Sequence) Runs() []Run { return s.runs }

// First returns the first number, 0 for an empty sequence.
func (s *Sequence) First() int64 {
	if s.count == 0 {
		return 0
	}
	return s.runs[0].First
}

// Last returns the last number, 0 for an empty sequence.
func (s *Sequence) Last() int64 {
	if s.count == 0 {
		return 0
	}
	run := s.runs[len(s.runs)-1]
	return run.First + int64(run.Count-1)*run.Stride
}

// Consecutive reports whether the numbers are one run with stride 1.
func (s *Sequence) Consecutive() bool {
	return len(s.runs) == 1 && (s.runs[0].Stride == 1 || s.count == 1)
}

// Numbers yields every number in order.
func (s *Sequence) Numbers() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, run := range s.runs {
			number := run.First
			for range run.Count {
				if !yield(number) {
					return
				}
				number += run.Stride
			}
		}
	}
}

// Show changes the display form of every number. rewrite gets a number and its current display
// form, which is only valid during the call, and appends the new one to dst.
func (s *Sequence) Show(rewrite func(dst []byte, number int64, shown []byte) []byte) {
	text, ends := s.spareText[:0], s.spareEnds[:0]
	start, i := 0, 0
	for number := range s.Numbers() {
		shown := s.digits[:0]
		if len(s.ends) > 0 {
			shown = s.text[start:s.ends[i]]
			start = s.ends[i]
		} else {
			shown = strconv.AppendInt(shown, number, 10)
		}
		text = rewrite(text, number, shown)
		// All are about as long as the first. Growing step by step would leave several times as
		// much garbage.
		if i == 0 && s.count > 1 {
			text, ends = slices.Grow(text, s.count*(len(text)+1)), slices.Grow(ends, s.count)
		}
		ends = append(ends, len(text))
		i++
		s.paces(i)
	}
	s.spareText, s.spareEnds = s.text, s.ends
	s.text, s.ends = text, ends
}

// AppendIDs appends all display forms to dst, each between open and end, separated by sep.
func (s *Sequence) AppendIDs(dst []byte, open, end, sep string) []byte {
	if len(s.ends) > 0 {
		return s.appendShown(dst, open, end, sep)
	}
	between := end + sep + open
	for i, run := range s.runs {
		if i == 0 {
			dst = append(dst, open...)
		} else {
			dst = append(dst, between...)
		}
		dst = run.appendDecimal(dst, between)
	}
	if s.count > 0 {
		dst = append(dst, end...)
	}
	return dst
}

func (s *Sequence) appendShown(dst []byte, open, end, sep string) []byte {
	start := 0
	for i, stop := range s.ends {
		if i > 0 {
			dst = append(dst, sep...)
		}
		dst = append(dst, open...)
		dst = append(dst, s.text[start:stop]...)
		dst = append(dst, end...)
		start = stop
	}
	return dst
}

// IDs returns the display forms.
func (s *Sequence) IDs() []string {
	ids := make([]string, 0, s.count)
	for shown := range s.Displays() {
		ids = append(ids, string(shown))
	}
	return ids
}

// Displays yields every display form in order. Each is only valid until the next.
func (s *Sequence) Displays() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := 0
		if !s.Shown() {
			for number := range s.Numbers() {
				if !yield(strconv.AppendInt(s.digits[:0], number, 10)) {
					return
				}
				i++
				s.paces(i)
			}
			return
		}
		start := 0
		for _, end := range s.ends {
			if !yield(s.text[start:end]) {
				return
			}
			start = end
			i++
			s.paces(i)
		}
	}
}

// Inherit gives s the key, asker, period, time and stamp of other, and not its numbers.
func (s *Sequence) Inherit(other *Sequence) {
	s.period = other.period
	if s.marked || other.marked {
		s.marked, s.about = other.marked, other.about
	}
}

// CopyFrom makes s a copy of other.
func (s *Sequence) CopyFrom(other *Sequence) {
	s.runs, s.count = append(s.runs[:0], other.runs...), other.count
	s.Inherit(other)
	s.text, s.ends = append(s.text[:0], other.text...), append(s.ends[:0], other.ends...)
}

// Shown reports whether a plugin changed how the numbers are shown.
func (s *Sequence) Shown() bool { return len(s.ends) > 0 }
