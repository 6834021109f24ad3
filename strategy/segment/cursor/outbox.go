package cursor

import (
	"log/slog"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// outbox is what a machine wants done.
type outbox struct{ commands []Command }

// Commands returns what is to be done since the last call, in order.
func (o *outbox) Commands() []Command {
	commands := o.commands
	o.commands = nil
	return commands
}

func (o *outbox) emit(c Command) { o.commands = append(o.commands, c) }

func (o *outbox) log(level slog.Level, text string, args ...any) {
	o.emit(Log{level, text, args})
}

func (o *outbox) event(kind seqd.EventKind, numbers int64, err error) {
	o.emit(Event{seqd.Event{Kind: kind, Numbers: numbers, Err: err}})
}

// skipped reports numbers that left the store and that nobody gets.
func (o *outbox) skipped(n int64, why error) {
	if n > 0 {
		o.event(seqd.EventAbandoned, n, why)
	}
}

// drop reports a range that nobody gets, unless it is empty.
func (o *outbox) drop(r persist.Range, why error) {
	if r.First > 0 {
		o.skipped(r.Size(), why)
	}
}

func (o *outbox) dropAll(ranges []persist.Range, why error) {
	for _, r := range ranges {
		o.drop(r, why)
	}
}

// redisBack reports that the node takes from the cursor again.
func (o *outbox) redisBack() {
	o.log(slog.LevelInfo, "Redis serves the cursor again; the node takes from it")
	o.event(seqd.EventRedisBack, 0, nil)
}

// redisGone reports that the node does without Redis.
func (o *outbox) redisGone(text string, cause error) {
	o.log(slog.LevelError, text, "error", cause)
	o.event(seqd.EventRedisAway, 0, cause)
}
