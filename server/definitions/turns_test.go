package definitions

import (
	"fmt"
	"sync"
	"testing"
)

// Who takes the turn of a name has it alone, and nothing is kept of those that have ended.
func TestTurns(t *testing.T) {
	var (
		all     turns
		holders [5]int
		work    sync.WaitGroup
	)
	for range 8 {
		work.Go(func() {
			for i := range 1000 {
				name := i % len(holders)
				end := all.take(fmt.Sprint(name))
				if holders[name]++; holders[name] != 1 {
					t.Errorf("%d have the turn of one name", holders[name])
				}
				holders[name]--
				end()
			}
		})
	}
	work.Wait()
	if len(all.names) > 0 {
		t.Errorf("%d names are kept", len(all.names))
	}
}
