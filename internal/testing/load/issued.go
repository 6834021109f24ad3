package load

import (
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/seqd/seqd/internal/testing/record"
)

// issued has the highest number of each counter that callers have seen, by its name in the store:
// order, invoice@20261122 or rent/t1. Numbers that were reserved count.
type issued struct {
	segments map[string]bool
	displays map[string]*regexp.Regexp // for biz types that rewrite numbers
	highest  map[string]int64
}

func newIssued(shapes []Shape) (*issued, error) {
	s := &issued{segments: map[string]bool{}, displays: map[string]*regexp.Regexp{}, highest: map[string]int64{}}
	for i := range shapes {
		b := &shapes[i].BizType
		s.segments[b.Name] = b.Strategy != record.Snowflake
		if b.Display == "" {
			continue
		}
		form, err := regexp.Compile(b.Display)
		if err != nil {
			return nil, err
		}
		s.displays[b.Name] = form
	}
	return s, nil
}

// note adds an answer.
func (s *issued) note(c *record.Call) {
	if !s.segments[c.BizType] {
		return
	}
	counter := c.BizType
	if c.Of != "" {
		counter += "/" + c.Of
	}
	for _, run := range c.Runs {
		s.raise(counter, run.Last())
	}
	for _, text := range c.Texts {
		s.read(c.BizType, counter, text)
	}
}

// read reads the number from a display form that shows it.
func (s *issued) read(bizType, counter, text string) {
	form := s.displays[bizType]
	if form == nil {
		return
	}
	number, period := form.SubexpIndex("number"), form.SubexpIndex("period")
	m := form.FindStringSubmatch(text)
	if m == nil || number < 0 {
		return
	}
	if period >= 0 {
		counter += "@" + m[period]
	}
	if n, err := strconv.ParseInt(m[number], 10, 64); err == nil {
		s.raise(counter, n)
	}
}

func (s *issued) raise(counter string, to int64) {
	s.highest[counter] = max(s.highest[counter], to)
}

// Highest returns what callers have seen so far, by counter.
func (j *Journal) Highest() map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.issued.highest)
}

// Enough returns the numbers for `seqd raise` after a restore: the highest numbers seen or, if that is
// not sufficient, the values in the lost store. It includes every period, even one without issued
// numbers. Display forms may hide numbers, and of the ranges of a node only an answer for a key in
// Redis may be left.
func Enough(shapes []Shape, seen, lost map[string]int64) map[string]int64 {
	numbers := maps.Clone(seen)
	for i := range shapes {
		s := &shapes[i]
		for _, counter := range s.Counters() {
			if number := lost[counter]; number > 0 && (s.Ordering == record.PerNode || numbers[counter] == 0) {
				numbers[counter] = max(numbers[counter], number)
			}
		}
	}
	for counter := range lost {
		if strings.Contains(counter, "@") && !strings.Contains(counter, "/@") {
			numbers[counter] = max(numbers[counter], 1)
		}
	}
	return numbers
}
