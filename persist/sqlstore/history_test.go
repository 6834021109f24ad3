package sqlstore

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestPieces(t *testing.T) {
	rows := func(count, size int) (list []int) {
		for range count {
			list = append(list, size)
		}
		return list
	}
	for _, test := range []struct {
		rows []int // how many bytes each row has
		want []int // rows in each piece
	}{
		{nil, nil},
		{rows(1, 0), []int{1}},
		{rows(mostRows, 1), []int{mostRows}},
		{rows(2*mostRows+1, 1), []int{mostRows, mostRows, 1}},
		{rows(3, mostBytes), []int{1, 1, 1}},
		{rows(2, mostBytes/2), []int{2}},
		{rows(2, mostBytes/2+1), []int{1, 1}},
		{append(rows(2, 5), 2*mostBytes), []int{2, 1}},
	} {
		got := pieces(test.rows, func(size int) int { return size })
		total := 0
		for i, piece := range got {
			if len(got) != len(test.want) || len(piece) != test.want[i] {
				t.Errorf("piece %d of %d has %d rows, want %v", i, len(got), len(piece), test.want)
			}
			total += len(piece)
		}
		must.Equal(t, total, len(test.rows), "the rows in a piece")
	}
}
