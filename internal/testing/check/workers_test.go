package check

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
)

// One lease may use a time of a worker ID again; two leases may not, also of one program.
func TestWorkers(t *testing.T) {
	for name, test := range map[string]struct {
		second record.Use
		broken int64
	}{
		"above":                {record.Use{Pool: "shop", Worker: 1, Program: "q", Lease: 1, First: 21, Last: 30}, 0},
		"the same lease":       {record.Use{Pool: "shop", Worker: 1, Program: "p", Lease: 1, First: 15, Last: 30}, 0},
		"another pool":         {record.Use{Pool: "mail", Worker: 1, Program: "q", Lease: 1, First: 15, Last: 30}, 0},
		"another worker ID":    {record.Use{Pool: "shop", Worker: 2, Program: "q", Lease: 1, First: 15, Last: 30}, 0},
		"another program":      {record.Use{Pool: "shop", Worker: 1, Program: "q", Lease: 1, First: 20, Last: 30}, 1},
		"another lease":        {record.Use{Pool: "shop", Worker: 1, Program: "p", Lease: 2, First: 1, Last: 10}, 1},
		"inside the use":       {record.Use{Pool: "shop", Worker: 1, Program: "q", Lease: 1, First: 12, Last: 13}, 1},
		"around the use":       {record.Use{Pool: "shop", Worker: 1, Program: "q", Lease: 1, First: 1, Last: 100}, 1},
		"two after each other": {record.Use{Pool: "shop", Worker: 1, Program: "q", Lease: 1, First: 1, Last: 9}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			s.add(record.Entry{Use: &record.Use{At: 1, Pool: "shop", Worker: 1, Program: "p", Lease: 1, First: 10, Last: 20}})
			second := test.second
			s.add(record.Entry{Use: &second})
			broken := map[string]int64{}
			if test.broken > 0 {
				broken[RuleWorker] = test.broken
			}
			want(t, s.check(t), broken)
		})
	}
}
