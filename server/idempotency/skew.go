package idempotency

import (
	"context"
	"fmt"
	"time"
)

// mostSkew is how far this node's clock may be off the store's before a warning is due.
const mostSkew = time.Hour

// Skew returns an error if the clocks of this node and of the store are far apart. One wrong clock,
// of this node or of the store, never makes an answer end early: answers are written with the later
// of the two times and removed by the earlier. Claims use the store's clock alone, which all nodes
// share.
func (s *Store) Skew(ctx context.Context) error {
	off, err := s.clock.Offset(ctx)
	if err != nil || off.Abs() <= mostSkew {
		return err
	}
	side := "ahead of"
	if off < 0 {
		side = "behind"
	}
	return fmt.Errorf("the clock of this node is %s %s that of the store: answers are kept for as much longer; set the clock that is wrong",
		off.Abs().Round(time.Second), side)
}
