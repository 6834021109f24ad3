package server

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestBoundConnections(t *testing.T) {
	for _, tt := range []struct {
		configured int
		limit      uint64
		known      bool
		want       int
	}{
		{16_384, 20_000, true, 16_384},
		{16_384, 16_640, true, 16_384},
		{16_384, 16_639, true, 16_383},
		{16_384, 1024, true, 768},
		{16_384, 513, true, 257},
		{16_384, 512, true, 256},
		{16_384, 1, true, 1},
		{16_384, 0, false, 16_384},
		{100, 300, true, 100},
		{200, 300, true, 150},
		{0, 1024, true, 0},
		{16_384, ^uint64(0), true, 16_384},
	} {
		must.Equal(t, boundConnections(tt.configured, tt.limit, tt.known), tt.want, "%d with %d open files (%t)", tt.configured, tt.limit, tt.known)
	}
}
