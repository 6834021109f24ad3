package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// benchState returns a machine on a ledger with open reservations, whose writes all succeed.
func benchMachine(b *testing.B, open, gaps int) (*Machine, func(requests []Request)) {
	m := New(Config{Counter: counter, Writer: "w"}, plain)
	m.policy.MaxReserved = 5000
	now := time.Now()
	var doc persist.Document
	run := func(requests []Request) {
		for i := range requests {
			m.Submit(&requests[i])
		}
		for done := 0; done < len(requests); {
			commands, _ := m.Next(now, 1_700_000_000_000)
			for i := range commands {
				c := commands[i]
				out := Outcome{Doc: doc}
				switch {
				case c.Action == Read && doc.Revision == 0:
					out.Err = persist.ErrNotFound
				case c.Action == Write:
					doc = c.Doc
				}
				m.Done(now, 1_700_000_000_000, &c, out)
			}
			for _, r := range m.Finished() {
				if done++; r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	}
	list := make([]Request, open+gaps*2)
	for i := range list {
		list[i].Op = Op{Kind: Reserve, Count: 1, ID: id(i), Caller: "billing"}
	}
	run(list)
	var release []Request
	for i := 0; i < gaps*2; i += 2 {
		release = append(release, Request{Op: Op{Kind: Release, ID: id(i), Caller: "billing"}},
			Request{Op: Op{Kind: Confirm, ID: id(i + 1), Caller: "billing"}})
	}
	run(release)
	b.ReportMetric(float64(len(doc.Body)), "B/doc")
	return m, run
}

func BenchmarkBatchOf64(b *testing.B) {
	for _, test := range []struct{ open, gaps int }{{0, 0}, {1000, 0}, {0, 1000}} {
		b.Run(fmt.Sprintf("issue/open=%d,released=%d", test.open, test.gaps), func(b *testing.B) {
			_, run := benchMachine(b, test.open, test.gaps)
			list := make([]Request, 64)
			b.ReportAllocs()
			for b.Loop() {
				for i := range list {
					list[i].Op = Op{Kind: Issue, Count: 1, Caller: "billing"}
				}
				run(list)
			}
		})
		b.Run(fmt.Sprintf("reserve+confirm/open=%d,released=%d", test.open, test.gaps), func(b *testing.B) {
			_, run := benchMachine(b, test.open, test.gaps)
			list := make([]Request, 64)
			n := 1 << 20
			b.ReportAllocs()
			for b.Loop() {
				for i := range list {
					n++
					list[i].Op = Op{Kind: Reserve, Count: 1, ID: id(n), Caller: "billing"}
				}
				run(list)
				for i := range list {
					list[i].Op = Op{Kind: Confirm, ID: list[i].Result.ID, Caller: "billing"}
				}
				run(list)
			}
		})
	}
	b.Run("once", func(b *testing.B) {
		_, run := benchMachine(b, 0, 0)
		list := make([]Request, 64)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			for i := range list {
				n++
				list[i].Op = Op{Kind: Issue, Count: 1, Once: id(n) + id(n), Caller: "billing"}
			}
			run(list)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, open := range []int{0, 1000} {
		b.Run(fmt.Sprintf("open=%d", open), func(b *testing.B) {
			m, run := benchMachine(b, open, 0)
			run([]Request{{Op: Op{Kind: Issue, Count: 1}}})
			d, err := m.state.Document(counter, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(&d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
