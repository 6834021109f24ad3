package cursor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/scenario"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// TestScenarios plays testdata/*.txt. Each is about one node; what others do happens to Redis and to
// the store. The steps are described at story.play.
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata", AllRules(), func(without ...Rule) scenario.Play {
		return (&story{without: Rules(without...)}).play
	})
}

// story is a world that writes down what happens.
type story struct {
	*world
	without RuleSet
	out     []string
}

// listener writes down what a world finds wrong. Only a machine that lacks a rule does wrong.
type listener struct {
	testing.TB
	*story
}

// fatal ends a step.
type fatal struct{}

func (listener) Helper() {}

func (l listener) Errorf(format string, args ...any) { l.tell("BROKEN: "+format, args...) }

func (l listener) Error(args ...any) { l.Errorf("%s", fmt.Sprint(args...)) }

func (l listener) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	panic(fatal{})
}

func (l listener) Fatal(args ...any) { l.Fatalf("%s", fmt.Sprint(args...)) }

// play executes a step and returns what happened and how the node is then. Times are as in 250ms.
// Where tasks can be named, all are meant if none is.
//
//	node [reject] [no-standby] [take-over] [start=n] [step=n] [max-step=n] [reserve=n] [unread]
//	     [epoch=e] [max=n] [issued=n] [alone=n] [ceil=n]
//	    begins a node, whose predecessor knew issued, alone and ceil, on a store that holds epoch
//	    and max. With unread the store could not be read at the start.
//	redis [down | up | takes-fail | takes-work | elsewhere | here | lost] [says=e] [epoch=e]
//	      [replaced=e] [cur=n] [last=n] [low=n] [room=n]
//	    changes Redis or the cursor in it. With epoch another node begins the cursor anew. With
//	    elsewhere installs reach another server than takes.
//	store [down | up] [says=e] [max=n] [epoch=e]
//	    changes the store
//	take n=n
//	    sends a take for callers who want n numbers, and passes on what it brings
//	send n=n [early]
//	    sends a take. With early Redis executes it now, otherwise when its answer arrives.
//	arrive [lost | never]
//	    the answer to that take arrives, or an error because the answer or the call was lost
//	issue n=n for=d
//	    a caller takes n numbers, and waits for them for d at most
//	do task=t [lost | never | says=e]
//	    executes the command of a task. The answer or the call may be lost. A question was answered
//	    with says a while ago.
//	run [t...]
//	    executes the commands of tasks, and what follows from them
//	pass for=d [t...]
//	    lets time pass, and executes the commands of tasks
//	jump for=d
//	    lets time pass, in which the node does nothing. Then its timer comes.
//	known
//	    shows what the next machine inherits
//	health away=d
//	    asks for the health: the shell's watch over Redis has found it away for d, 0s for not
//	away
//	    the shell finds that the store is away
//	wait n=n, prepare, stop, finish
//	    are those of the machine
func (s *story) play(t *testing.T, step *scenario.Step) string {
	s.out = nil
	s.step(t, step)
	return strings.Join(s.shortened(), "\n")
}

// shortened returns what happened. Lines that follow each other again and again are there once.
func (s *story) shortened() (lines []string) {
	for out := s.out; len(out) > 0; {
		size, times := repeated(out)
		if times == 1 {
			lines, out = append(lines, out[0]), out[1:]
			continue
		}
		lines = append(lines, fmt.Sprintf("%d times:", times))
		for _, line := range out[:size] {
			lines = append(lines, "  "+line)
		}
		out = out[size*times:]
	}
	return lines
}

// repeated returns how many of the first lines follow each other at least three times, and how often.
func repeated(lines []string) (size, times int) {
	for size := 2; size <= 5; size++ {
		for times = 1; len(lines) >= size*(times+1) && slices.Equal(lines[:size], lines[size*times:size*(times+1)]); {
			times++
		}
		if times >= 3 {
			return size, times
		}
	}
	return 1, 1
}

func (s *story) step(t *testing.T, step *scenario.Step) {
	defer func() {
		if p := recover(); p != nil && p != any(fatal{}) {
			panic(p)
		}
	}()
	number := func(name string, otherwise int64) int64 { return scenario.Arg(t, step, name, otherwise) }
	length := func(name string) time.Duration {
		d, _ := time.ParseDuration(scenario.Arg(t, step, name, "0s"))
		return d
	}
	switch step.Cmd {
	case "node":
		s.begin(t, step)
	case "redis":
		s.changeRedis(t, step)
		return
	case "store":
		s.changeStore(t, step)
		return
	case "take":
		if s.m.Mode() == Online {
			s.takeOnce(number("n", 1))
		} else {
			s.tell("no take is sent")
		}
	case "send":
		s.callerComes(number("n", 1))
		if step.HasArg("early") && s.slow != nil && s.slow.resumes < 0 {
			s.executeSlow(well)
		}
	case "arrive":
		s.arrive(outcomeOf(step))
	case "issue":
		if s.issue(number("n", 1), length("for")) == 0 {
			s.tell("the caller does not get all")
		}
	case "do":
		now := s.store.epoch
		s.store.epoch = scenario.Arg(t, step, "says", now)
		s.doTask(tasksOf(scenario.Arg(t, step, "task", "")), outcomeOf(step))
		if step.HasArg("says") {
			s.store.epoch = now
		}
	case "run":
		s.settle(tasksOf(keys(step)...)...)
	case "pass":
		s.pass(length("for"), tasksOf(keys(step)...)...)
	case "health":
		s.health(length("away"))
	case "jump":
		s.now = s.now.Add(length("for"))
		s.m.Tick(s.now)
	case "known":
		s.known()
	case "away":
		s.m.Store(s.now, errDown)
	case "wait":
		s.m.Waiting(number("n", 1))
	case "prepare":
		s.m.Prepare(s.now)
	case "stop":
		s.m.Stop(s.now)
	case "finish":
		for _, r := range s.m.Finish() {
			s.tell("given back to the store: %s", text(r))
		}
	default:
		t.Fatalf("%s: there is no step %s", step.Pos, step.Cmd)
	}
	s.fetch()
	s.state()
}

func keys(step *scenario.Step) (list []string) {
	for _, arg := range step.CmdArgs {
		list = append(list, arg.Key)
	}
	return list
}

// tasksOf returns the tasks among some words.
func tasksOf(words ...string) (list []Task) {
	for task := range tasks {
		if slices.Contains(words, task.String()) {
			list = append(list, task)
		}
	}
	return list
}

func outcomeOf(step *scenario.Step) outcome {
	switch {
	case step.HasArg("lost"):
		return lost
	case step.HasArg("never"):
		return never
	}
	return well
}

func (s *story) begin(t *testing.T, step *scenario.Step) {
	epochs := 0
	s.world = newWorld(t, func(c *Config) {
		c.Start = scenario.Arg(t, step, "start", c.Start)
		c.Step = scenario.Arg(t, step, "step", c.Step)
		c.MaxStep = scenario.Arg(t, step, "max-step", c.Step)
		c.Reserve = scenario.Arg(t, step, "reserve", 0)
		c.Degrade, c.NoStandby, c.TakeOver = !step.HasArg("reject"), step.HasArg("no-standby"), step.HasArg("take-over")
		c.NewEpoch = func() string { epochs++; return fmt.Sprintf("own%d", epochs) }
		c.Without = s.without
	})
	s.t = listener{t, s}
	s.tell = func(format string, args ...any) {
		s.out = append(s.out, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
	s.store.max = scenario.Arg(t, step, "max", s.store.max)
	s.store.epoch = scenario.Arg(t, step, "epoch", "")
	s.m = New(s.m.cfg) // newWorld has begun it on an empty store
	s.m.Inherit(Known{
		Issued: scenario.Arg(t, step, "issued", int64(0)), Alone: scenario.Arg(t, step, "alone", int64(0)),
		Ceil: scenario.Arg(t, step, "ceil", int64(0)),
	})
	if !step.HasArg("unread") {
		s.m.Began(s.now, s.now, s.store.epoch)
	}
}

// failures are what Redis and the store can say.
var failures = map[string]error{
	"foreign":   rediscursor.ErrForeign,
	"newer":     rediscursor.ErrNewer,
	"exhausted": persist.ErrExhausted,
	"not-found": persist.ErrNotFound,
}

func (s *story) changeRedis(t *testing.T, step *scenario.Step) {
	r := &s.redis
	if step.HasArg("lost") {
		s.lose()
	}
	switch {
	case step.HasArg("down"), step.HasArg("up"):
		r.down = step.HasArg("down")
	case step.HasArg("takes-fail"), step.HasArg("takes-work"):
		r.takesDown = step.HasArg("takes-fail")
	case step.HasArg("elsewhere"), step.HasArg("here"):
		r.elsewhere = step.HasArg("elsewhere")
	}
	r.err = failures[scenario.Arg(t, step, "says", "")]
	if step.HasArg("epoch") {
		r.epoch, r.replaced = scenario.Arg(t, step, "epoch", ""), scenario.Arg(t, step, "replaced", "")
		r.gen++
	}
	r.cur, r.last = scenario.Arg(t, step, "cur", r.cur), scenario.Arg(t, step, "last", r.last)
	r.ceil = max(r.ceil, r.last)
	r.low, r.room = rediscursor.Low(scenario.Arg(t, step, "low", int(r.low))), scenario.Arg(t, step, "room", r.room)
	switch {
	case r.down:
		s.tell("Redis: down")
	case r.err != nil:
		s.tell("Redis: %v", r.err)
	case r.elsewhere:
		s.tell("Redis: installs reach another server")
	case r.epoch == "":
		s.tell("Redis: empty, or a stub")
	default:
		s.tell("Redis: a cursor of epoch %s, up to %d taken, up to %d there", r.epoch, r.cur, r.last)
	}
}

func (s *story) changeStore(t *testing.T, step *scenario.Step) {
	if step.HasArg("down") || step.HasArg("up") {
		s.store.down = step.HasArg("down")
	}
	s.store.max = scenario.Arg(t, step, "max", s.store.max)
	s.store.epoch = scenario.Arg(t, step, "epoch", s.store.epoch)
	s.store.err = failures[scenario.Arg(t, step, "says", "")]
	switch {
	case s.store.down:
		s.tell("store: down")
	case s.store.err != nil:
		s.tell("store: %v", s.store.err)
	default:
		s.tell("store: up to %d, epoch %s", s.store.max, s.store.epoch)
	}
}

func (s *story) arrive(how outcome) {
	switch {
	case s.slow == nil:
		s.tell("no take is under way")
		return
	case s.slow.resumes >= 0:
		s.send()
	}
	if s.slow.resumes >= 0 {
		s.tell("the take still waits")
		return
	}
	if !s.slow.done {
		s.executeSlow(how)
	}
	s.goesOn(nil)
}

func (s *story) executeSlow(how outcome) {
	s.slow.taken, s.slow.err = s.world.take(s.slow.take, how)
	s.slow.done = true
	s.tell("%s: %s", describe(Take{Take: s.slow.take}), seen(s.slow.taken, s.slow.err))
}

func (s *story) doTask(only []Task, how outcome) {
	s.fetch()
	if i := s.next(only...); i >= 0 && len(only) == 1 {
		s.do(i, how)
	} else {
		s.tell("it has no command under way")
	}
}

func (s *story) health(away time.Duration) {
	found := RedisAway{}
	if away > 0 {
		found = RedisAway{Since: s.now.Add(-away), Cause: errDown}
	}
	if e := s.m.Health(s.now, found); e != nil {
		s.tell("unhealthy: %s", e.Code)
	}
	if e := s.m.Degraded(s.now, found); e != nil {
		s.tell("degraded: %s", e.Code)
		if away > 0 {
			s.tell("  %s", e.Detail)
		}
	}
}

func (s *story) known() {
	k := s.m.Known(s.local.issued)
	s.tell("known: issued %d, alone %d, ceil %d, the machine issued %d", k.Issued, k.Alone, k.Ceil, s.m.Issued())
	if epoch, asked := s.m.Believed(); asked.IsZero() {
		s.tell("believes in nothing")
	} else {
		s.tell("believes in %s, asked %v ago", epoch, s.now.Sub(asked))
	}
}

// state writes down how the node is.
func (s *story) state() {
	m, v := s.m, s.m.Measure()
	line := fmt.Sprintf("node: %s", m.Mode())
	for _, n := range []struct {
		what string
		is   int64
	}{{"issued", m.Known(s.local.issued).Issued}, {"step", v.Step}, {"in the cursor", v.Cursor}, {"standby", v.Standby}, {"knows numbers up to", v.Seen}} {
		if n.is > 0 {
			line += fmt.Sprintf(", %s %d", n.what, n.is)
		}
	}
	if epoch, _ := m.Believed(); epoch != "" {
		line += ", believes in " + epoch
	}
	s.tell("%s", line)
	for _, c := range s.waiting {
		s.tell("under way: %s", describe(c))
	}
	for _, t := range m.running {
		if m.Mode() == Closing {
			s.tell("still at work: %s", t.base().id)
		}
	}
	if due := m.Deadline(); !due.IsZero() {
		s.tell("next tick in %v", due.Sub(s.now))
	}
	switch refusal := m.Refusal(); {
	case refusal != nil:
		s.tell("callers are refused: %s", refusal.Code)
	case m.Mode() == Mending:
		s.tell("callers who waited too long get %s", m.Late().Code)
	}
	s.health(0)
}

func text(r persist.Range) string { return fmt.Sprintf("%d..%d", r.First, r.Last) }

// because is the text of an error, empty for none.
func because(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// seen is what a take or a look brought.
func seen(taken rediscursor.Taken, err error) string {
	if err != nil {
		return err.Error()
	}
	said := ""
	for _, r := range taken.Runs {
		said += text(r) + ", "
	}
	switch {
	case taken.Stub:
		return "a stub"
	case taken.Other:
		said += "a cursor of epoch " + taken.Epoch
		if taken.Replaced != "" {
			said += ", which replaced " + taken.Replaced
		}
		return said
	}
	said += fmt.Sprintf("%d left", taken.Hand)
	return said + map[rediscursor.Low]string{rediscursor.Claimed: ", a refill is claimed", rediscursor.WantsRefill: ", wants a refill"}[taken.Low]
}

// describe is what a command does.
func describe(c Command) string {
	switch c := c.(type) {
	case Take:
		return describeTake(c)
	case Install:
		in := c.Install
		said := fmt.Sprintf("%s: %s %s, epoch %s", c.Task, in.Mode, text(in.Range), in.Epoch)
		if in.Replaced != "" {
			said += " after " + in.Replaced
		}
		if in.Reserve > 0 {
			said += fmt.Sprintf(", with %d in reserve", in.Reserve)
		}
		return said
	case Allocate:
		return describeAllocate(c)
	case Question:
		return fmt.Sprintf("%s: ask the store within %v%s", c.Task, c.Timeout, map[bool]string{true: ", unhurried"}[c.Unhurried])
	case ReadStore:
		return fmt.Sprintf("%s: read the store within %v", c.Task, c.Timeout)
	case CloseLocal:
		return "close the local buffer"
	}
	return fmt.Sprintf("%T", c)
}

func describeTake(c Take) string {
	said := fmt.Sprintf("%s: look", c.Task)
	if c.Take.Count > 0 {
		said = fmt.Sprintf("take %d", c.Take.Count)
		if c.Task == Mend && c.Take.Claim == 0 {
			said += " without a claim"
		}
	} else if c.Take.Claim > 0 {
		said += " and claim"
	}
	if c.Take.UseReserve {
		said += ", also from the reserve"
	}
	if c.Timeout > 0 {
		said += fmt.Sprintf(" within %v", c.Timeout)
	}
	if c.Take.Epoch == "" {
		return said + ", no epoch"
	}
	return said + ", epoch " + c.Take.Epoch
}

func describeAllocate(c Allocate) string {
	said := fmt.Sprintf("%s: allocate above %d", c.Task, c.Floor)
	if c.Want > 0 {
		said = fmt.Sprintf("%s: allocate for %d above %d", c.Task, c.Want, c.Floor)
	}
	switch epoch, isCursor := c.To.Cursor(); {
	case !isCursor:
		said += ", beside the cursor"
	case c.To.Keeps():
		said += ", for epoch " + epoch
	default:
		said += fmt.Sprintf(", for a new epoch %s after %q", c.To.Epoch(), epoch)
	}
	return said + map[Reason]string{Filling: "", Consumed: " (consumed)", Retrying: " (again)", Standing: " (standby)"}[c.Why]
}
