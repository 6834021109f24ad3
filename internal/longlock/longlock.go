// Package longlock has a lock for work that waits, such as for the store. A goroutine that waits
// for a sync.Mutex stops the time of a simulation (testing/synctest), since the holder is expected
// to give it back without waiting. One that waits for a [Lock] does not.
package longlock

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Lock is a lock that may be held while its holder waits. The zero value is unlocked. It must not
// be copied after first use.
type Lock struct {
	once sync.Once
	free chan struct{} // holds a value while the lock is held
}

var _ sync.Locker = (*Lock)(nil)

func (l *Lock) init() { l.once.Do(func() { l.free = make(chan struct{}, 1) }) }

// Lock implements [sync.Locker].
func (l *Lock) Lock() { l.init(); l.free <- struct{}{} }

// LockWithin locks l. If ctx ends before that, it returns the error of ctx, and if that takes longer
// than patience, tooLong.
func (l *Lock) LockWithin(ctx context.Context, patience time.Duration, tooLong error) error {
	l.init()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case l.free <- struct{}{}:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	return cmp.Or(ctx.Err(), tooLong)
}

// Unlock implements [sync.Locker]. It panics if l is not locked.
func (l *Lock) Unlock() {
	l.init()
	select {
	case <-l.free:
	default:
		panic("longlock: unlock of an unlocked lock")
	}
}
