package storetake

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/scenario"
	"github.com/seqd/seqd/persist"
)

// TestScenarios plays testdata/*.txt. The steps are the methods of story.
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata", AllRules(), func(without ...Rule) scenario.Play {
		s := &story{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), without: Rules(without...)}
		return s.play
	})
}

// story is one counter in a store, and the machine of one node.
type story struct {
	m       *Machine
	counter persist.Counter
	now     time.Time
	gap     int64 // that the shell asks for
	sent    Take  // under way, if hangs
	without RuleSet
	out     strings.Builder
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// play executes a step:
//
//	node [policy=refuse|follow|take-over] [start=n] [last=n] [gap=n] [inherits=n]
//	    begins the counter and the node
//	store [max=n] [epoch=e] [failed-over]
//	    changes the counter: another node took numbers or took over, or it was restored
//	read [error=e]
//	    reads the counter now
//	take n=n [hangs | error=e | lost | below]
//	    takes for callers who want n numbers: the store is slow or fails, its answer is lost, or it
//	    does not keep to the floor
//	arrives [error=e]
//	    the answer to the take that hangs comes
//	wait [error=e]
//	    time passes until the node reads the counter, which it does
//	after d
//	    time passes, and shows the health then
//	guess, stop
//	    are those of the machine
func (s *story) play(t *testing.T, step *scenario.Step) string {
	s.out.Reset()
	failure := failures[scenario.Arg(t, step, "error", "")]
	switch step.Cmd {
	case "node":
		s.begin(t, step)
	case "store":
		s.change(t, step)
		return s.out.String()
	case "read":
		s.m.Read(s.now, s.counter, failure)
	case "take":
		s.take(t, step)
	case "arrives":
		s.arrives(t, step)
	case "wait":
		s.wait(failure)
	case "after":
		d, _ := time.ParseDuration(step.CmdArgs[0].Key)
		s.now = s.now.Add(d)
	case "guess":
		s.m.Guess()
	case "stop":
		s.m.Stop()
	default:
		t.Fatalf("%s: there is no step %s", step.Pos, step.Cmd)
	}
	s.state()
	return s.out.String()
}

func (s *story) begin(t *testing.T, step *scenario.Step) {
	policies := map[string]Policy{"refuse": Refuse, "follow": Follow, "take-over": TakeOver}
	start := scenario.Arg(t, step, "start", int64(1))
	s.gap = scenario.Arg(t, step, "gap", int64(0))
	s.m = New(Config{
		Start: start, Last: scenario.Arg(t, step, "last", int64(0)), Cursor: policies[scenario.Arg(t, step, "policy", "refuse")],
		Patience: 2 * time.Second, Without: s.without,
	})
	s.m.Inherit(scenario.Arg(t, step, "inherits", int64(0)))
	s.counter = persist.Counter{BizTag: "order", Step: 1, Max: start - 1}
}

func (s *story) change(t *testing.T, step *scenario.Step) {
	s.counter.Max = scenario.Arg(t, step, "max", s.counter.Max)
	if step.HasArg("epoch") {
		s.counter.Epoch = epochOf(scenario.Arg(t, step, "epoch", ""))
	}
	if step.HasArg("failed-over") {
		s.counter.Epoch, s.counter.FailedOver = "", true
	}
	s.say("store: up to %d, epoch %s", s.counter.Max, nameOf(s.counter.Epoch))
}

// failures are the errors that a step can name.
var failures = map[string]error{
	"":          nil,
	"away":      errors.New("connection refused"),
	"not-found": persist.ErrNotFound,
	"exhausted": persist.ErrExhausted,
}

// epochOf and nameOf translate epochs: a scenario calls that of a cursor in Redis by one letter
// from a to f, and no epoch -.
func epochOf(name string) string {
	switch name {
	case "-":
		return ""
	case persist.StoreEpoch:
		return name
	}
	return strings.Repeat(name, len(persist.NewEpoch()))
}

func nameOf(epoch string) string {
	switch epoch {
	case "":
		return "-"
	case persist.StoreEpoch:
		return epoch
	}
	return epoch[:1]
}

func (s *story) take(t *testing.T, step *scenario.Step) {
	if s.m.Mode() != Online || s.m.Refusal() != nil {
		s.say("callers do not take")
		return
	}
	s.sent = s.m.Send(s.now, scenario.Arg(t, step, "n", int64(1)))
	s.say("asks for %d above %d, %s", s.sent.Size, s.sent.Floor, s.describe())
	if !step.HasArg("hangs") {
		s.arrives(t, step)
	}
}

func (s *story) describe() string {
	needs, named := s.sent.To.Needs()
	switch {
	case s.sent.TakesOver() && s.sent.Retire:
		return "to take over from epoch " + nameOf(needs) + " after the cursor in Redis is removed"
	case s.sent.TakesOver():
		return "to take over from epoch " + nameOf(needs) + " at once"
	case named:
		return "if the epoch is " + nameOf(needs)
	}
	return "whatever the epoch is"
}

// arrives executes what was sent and passes the result on.
func (s *story) arrives(t *testing.T, step *scenario.Step) {
	take := s.sent
	req := persist.Request{BizTag: "order", Size: take.Size, Floor: take.Floor, To: take.To, Gap: s.gap, FailoverGap: s.gap}
	if step.HasArg("below") {
		req.Floor = 0
	}
	after, r, err := s.counter.Allocated(req, 0)
	if failure := failures[scenario.Arg(t, step, "error", "")]; failure != nil {
		after, r, err = s.counter, persist.Range{}, failure
	}
	if s.counter = after; step.HasArg("lost") {
		r, err = persist.Range{}, failures["away"]
	}
	switch out := s.m.Took(s.now, take, r, err); {
	case err != nil:
		s.say("brings nothing: %s", strings.TrimPrefix(err.Error(), "order: "))
	case out.Dropped.First > 0:
		s.say("drops %d..%d", out.Dropped.First, out.Dropped.Last)
	default:
		s.say("callers get %d..%d", out.Range.First, out.Range.Last)
	}
}

func (s *story) wait(failure error) {
	due := s.m.Deadline()
	if due.IsZero() {
		s.say("nothing is due")
		return
	}
	if early := s.m.Tick(due.Add(-1)); early {
		s.say("it reads too early")
	}
	s.say("reads after %v", due.Sub(s.now))
	if s.now = due; s.m.Tick(s.now) {
		if s.m.Tick(s.now) {
			s.say("it reads twice")
		}
		s.m.Read(s.now, s.counter, failure)
	}
}

// state shows all that the machine tells.
func (s *story) state() {
	m := s.m
	s.say("node: %s, issued %d, seen %d%s", m.Mode(), m.Issued(), m.Seen(), map[bool]string{true: ", follows the cursor"}[m.Moved()])
	if due := m.Deadline(); !due.IsZero() {
		s.say("next read in %v", due.Sub(s.now))
	}
	switch refusal := m.Refusal(); {
	case refusal != nil:
		s.say("callers are refused: %s", refusal.Code)
	case m.Mode() == Mending:
		s.say("callers who waited too long get %s", m.Late().Code)
	}
	if health := m.Health(s.now); health != nil {
		s.say("unhealthy: %s", health.Code)
	}
}

func TestRuleNames(t *testing.T) {
	var all string
	for _, r := range AllRules() {
		all += r.String() + ","
	}
	must.Equal(t, must.Get(ParseRules(all))(t), Rules(AllRules()...))
	if _, err := ParseRules("floor"); err == nil {
		t.Error("a rule of another machine was accepted")
	}
}
