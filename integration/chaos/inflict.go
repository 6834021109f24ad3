package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// inflict runs the schedule, and returns when all faults have ended. An error means that the
// laboratory could not repair something.
func (l *laboratory) inflict(ctx context.Context, schedule []planned) error {
	began := time.Now()
	hands := &hands{held: map[string]bool{}}
	hands.free = sync.NewCond(&hands.mu)
	var under sync.WaitGroup
	failures := make(chan error, len(schedule))
	for i, p := range schedule {
		load.Rest(ctx, time.Until(began.Add(p.at)))
		if ctx.Err() != nil {
			break
		}
		under.Go(func() { failures <- l.suffer(ctx, i+1, p, hands) })
	}
	under.Wait()
	close(failures)
	var err error
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

// suffer runs one fault from its begin to its end.
func (l *laboratory) suffer(ctx context.Context, id int, p planned, hands *hands) error {
	locks := p.class.locks(p.target)
	hands.take(locks) // a late fault may still hold them
	defer hands.give(locks)
	t := &trouble{planned: p, Fault: p.class.marks}
	t.ID, t.Class, t.Target, t.Detail = id, p.class.name, p.target, p.detail()
	t.Begin = l.Journal.Now()
	l.count(t, 1)
	defer l.count(t, -1)
	broken := p.class.begin(l, t)
	l.Journal.Say("+ %s %s %s%s", t.Class, t.Target, t.Detail, because(broken))
	if broken == nil {
		l.tell(t)
		load.Rest(ctx, p.length)
	}
	err := l.mend(t, broken == nil)
	t.End = l.Journal.Now()
	if broken == nil {
		l.tell(t)
		l.Journal.Say("- %s %s", t.Class, t.Target)
	} else if errors.Is(broken, errNothing) {
		l.foundNothing()
	} else {
		err = errors.Join(broken, err)
	}
	return named(fmt.Sprintf("fault %d, %s %s", id, t.Class, t.Target), err)
}

// mend ends a fault. For one that could not begin it only calls undo.
func (l *laboratory) mend(t *trouble, begun bool) (err error) {
	for _, undo := range slices.Backward(t.undo) {
		err = errors.Join(err, undo())
	}
	if t.class.end != nil && begun {
		err = errors.Join(err, t.class.end(l, t))
	}
	return err
}

// foundNothing counts a fault without an effect.
func (l *laboratory) foundNothing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle++
}

// count counts the faults that make the store unavailable.
func (l *laboratory) count(t *trouble, by int) {
	if !t.Store {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away += by
	l.backAt = l.Journal.Now()
}

func (l *laboratory) tell(t *trouble) {
	now := t.Fault
	l.Journal.Write(record.Entry{Fault: &now})
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// hands has the parts that current faults hold.
type hands struct {
	mu   sync.Mutex
	free *sync.Cond
	held map[string]bool // guarded by mu
}

// take waits until all of the given parts are free, and holds them.
func (h *hands) take(things []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for slices.ContainsFunc(things, func(thing string) bool { return h.held[thing] }) {
		h.free.Wait()
	}
	for _, thing := range things {
		h.held[thing] = true
	}
}

func (h *hands) give(things []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, thing := range things {
		delete(h.held, thing)
	}
	h.free.Broadcast()
}
