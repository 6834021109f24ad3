package counters

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// slow is a kind of counters that know their number, and are closed when release is.
type slow struct {
	Kind[*counter, fact]
	*world
	release chan struct{}
}

func (k *slow) OpenCounter(ctx context.Context, name Name, by string) (*counter, error) {
	return k.open(ctx, name, by)
}

func (k *slow) CloseCounter(ctx context.Context, name Name, c *counter) error {
	<-k.release
	return k.close(ctx, name, c)
}

func (k *slow) Knows(_ Name, c *counter) fact { return fact{last: c.number} }

// An heir learns what is known of counters that were closed, and of those that a Close which ran
// out of time has left behind.
func TestKnowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &slow{world: newWorld(), release: make(chan struct{})}
		f := NewFamily(Base{BizType: &seqd.BizType{}, Settings: &Settings{AcquireTimeout: time.Hour}}, k, 2, 2, time.Hour)
		must.Equal(t, f.Knowledge(), nil, "what is left of nothing")
		name := Name{Period: 20261130}
		must.Get(f.Acquire(t.Context(), name, ""))(t).Release()
		f.Forget(name)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		must.Is(t, f.Close(late), context.Canceled)
		want := []Memo[fact]{{name, fact{last: 1}}}
		known := func(when string) {
			if got, _ := f.Knowledge().([]Memo[fact]); !slices.Equal(got, want) {
				t.Errorf("%s, %v is known", when, got)
			}
		}
		known("while the counter is being closed")
		close(k.release)
		synctest.Wait()
		known("when it is closed")
		heir := NewFamily(f.Base, k, 2, 2, time.Hour)
		if heir.Learn(f.Knowledge()); heir.Memory.Of(name) != want[0].Known {
			t.Errorf("the heir knows %v", heir.Memory.Of(name))
		}
	})
}
