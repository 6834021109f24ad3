package ledger

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// A write expires a reservation between two issues, and the second one takes its number. The event of
// the first one does not take that in: it would tell of the issue before the number came back.
func TestIssuedAfterExpired(t *testing.T) {
	p := &Policy{Start: 1, TTL: 100, MaxReserved: 10, Told: true}
	s := Fresh(p, "b", "")
	const id = "00000000000000000001"
	must.Get(s.Apply(1, p, &Op{Kind: Reserve, Count: 1, ID: id}, nil))(t)
	s.Revision++
	must.Get(s.Apply(1000, p, &Op{Kind: Issue, Count: 2}, nil))(t) // takes 2 and 3
	_, err := s.Apply(1000, p, &Op{Kind: Confirm, ID: id}, nil)
	must.Equal(t, err != nil, true, "it is late")
	must.Get(s.Apply(1000, p, &Op{Kind: Issue, Count: 1}, nil))(t) // takes 1
	docs := s.batches("invoice", s.Outbox)
	must.Equal(t, len(docs), 1)
	var types []string
	for _, e := range must.Get(persist.DecodeEventBatch(&docs[0]))(t).Events {
		types = append(types, e.Type)
	}
	must.Equal(t, strings.Join(types, " "), "range.issued reservation.expired range.issued")
}
