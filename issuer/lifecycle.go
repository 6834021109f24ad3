package issuer

// phase is where an [instance] stands in its life.
type phase uint8

const (
	fresh    phase = iota // Init of the strategy was never called
	opening               // Init is under way
	ready                 // the strategy issues
	failed                // Init failed; the next caller tries again
	stopping              // nothing is issued any more; Close of the strategy is due
	// stopped while Init is under way: when that ends, the strategy is closed
	abandoned
	closed // Close of the strategy was called, or needs no call
)

// event is what happens to an instance.
type event uint8

const (
	begin   event = iota // Init is called
	succeed              // Init has succeeded
	fail                 // Init has failed
	stop                 // nothing may be issued any more
	shut                 // Close of the strategy is called, if it is due
	end                  // Init that nobody waits for has returned, and the strategy was closed
)

// lifecycle says which phase follows. An event that is not listed changes nothing.
var lifecycle = map[phase]map[event]phase{
	fresh:     {begin: opening, stop: closed},
	opening:   {succeed: ready, fail: failed, stop: abandoned},
	ready:     {stop: stopping},
	failed:    {begin: opening, stop: stopping},
	stopping:  {shut: closed},
	abandoned: {end: closed},
	closed:    {},
}

// after returns the phase that follows an event.
func (p phase) after(e event) phase {
	if next, ok := lifecycle[p][e]; ok {
		return next
	}
	return p
}
