package check

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
)

// One session works on something at a time, or as many as may, and no number is written twice.
func TestDuties(t *testing.T) {
	lost := func(f *record.Fault) { f.StoreLost = true }
	for name, test := range map[string]struct {
		second record.Duty
		lost   bool
		broken int64
	}{
		"later":                       {record.Duty{From: 21, Until: 30, Session: "b", First: 3, Last: 4}, false, 0},
		"at once":                     {record.Duty{From: 15, Until: 30, Session: "b", First: 3, Last: 4}, false, 1},
		"at once, the same session":   {record.Duty{From: 15, Until: 30, Session: "a", First: 3, Last: 4}, false, 0},
		"at once, another work":       {record.Duty{From: 15, Until: 30, Session: "b", First: 1, Last: 2, Work: "other"}, false, 0},
		"at once, as two may":         {record.Duty{From: 15, Until: 30, Session: "b", Most: 2}, false, 0},
		"a number again":              {record.Duty{From: 21, Until: 30, Session: "b", First: 2, Last: 4}, false, 1},
		"a number again, in between":  {record.Duty{From: 21, Until: 30, Session: "b", First: 1, Last: 1}, false, 1},
		"a number again after a loss": {record.Duty{From: 21, Until: 30, Session: "b", First: 2, Last: 4}, true, 0},
		"at once after a loss":        {record.Duty{From: 15, Until: 30, Session: "b", First: 2, Last: 4}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			if test.lost {
				s.fault(0, 1, "failover", "", lost)
			}
			second := test.second
			second.Most = max(second.Most, 1)
			if second.Work == "" {
				second.Work = "w"
			}
			s.add(record.Entry{Duty: &record.Duty{From: 10, Until: 20, Session: "a", Work: "w", Most: second.Most, First: 1, Last: 2}})
			s.add(record.Entry{Duty: &second})
			broken := map[string]int64{}
			if test.broken > 0 {
				broken[RuleTerm] = test.broken
			}
			want(t, s.check(t), broken)
		})
	}
}
