package definitions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// checker finds out whether a changed definition may be stored.
type checker struct {
	decode  func(name string, text []byte) (seqd.BizType, error)
	shapes  persist.Shapes
	store   persist.Store
	sources sources
	now     func() time.Time
	// stoppedFor returns for how long a biz type has been known not to issue, until this revision.
	stoppedFor func(name string, revision int64) time.Duration
	shown      func(ctx context.Context, bizType, display string) (job string, err error) // see Options
}

// results refuses a change of how numbers are shown while there are results of jobs. A job that
// begins at the same moment is not seen: it compares how its numbers are shown with each chunk, and
// when its result is read.
func (c *checker) results(ctx context.Context, name string, before, said stored, change admin.Change) error {
	if c.shown == nil || change.Force {
		return nil
	}
	was, _ := c.decode(name, before.Definition)
	is, err := c.decode(name, said.Definition)
	next := ""
	if err == nil && !said.Deleted && !(change.DryRun && c.unread(name, is, before) != "") {
		next = displayOf(is, said)
	}
	if next != "" && next == displayOf(was, before) {
		return nil
	}
	job, err := c.shown(ctx, name, next)
	if err != nil || job == "" {
		return storeError(err)
	}
	return seqd.Errorf(seqd.CodeConflict, "the result of job %s could not be downloaded any more, because %s would show its numbers in another way: "+
		"download and remove it first, or add force=true", job, name)
}

// settleTime is how long a biz type must not issue before it gets another strategy: longer than
// heldUp and the interval between two polls of the feed together.
const settleTime = 20 * time.Second

// definition returns an error if a definition cannot be used. before is what the store says in a
// revision. The warnings are of what the definition does not do although it looks so, with the keys
// of the settings that they concern. shape is the one that its IDs were given by force, by this
// change if reshaped is true; "" for none.
func (c *checker) definition(ctx context.Context, name string, revision int64, before, said stored, change admin.Change) (warnings []seqd.Problem, shape string, reshaped bool, err error) {
	if said.Deleted || !said.Enabled && !change.Force && bytes.Equal(said.Definition, before.Definition) {
		// a definition that is wrong can still be deleted or disabled
		return nil, before.Shape, false, nil
	}
	b, err := c.decode(name, said.Definition)
	if err != nil {
		return nil, "", false, err
	}
	lowered, err := c.lowered(ctx, b, before)
	if err != nil {
		return nil, "", false, err
	}
	if key := c.unread(name, b, before); key != "" && change.DryRun {
		warnings = append(warnings, seqd.Problem{Key: key, Text: "a dry run does not read what the biz type does not use yet: " +
			"it tells neither whether the key fits the IDs that were issued nor what IDs look like"})
	} else {
		shape, reshaped, err = c.shape(ctx, b, revision, before.Shape, change)
	}
	switch {
	case lowered.Key != "" && !change.Force && seqd.CodeOf(err) == seqd.CodeConflict:
		// Who forces one of them forces both.
		both := *seqd.AsError(err)
		both.Detail += fmt.Sprintf("; and %s: %s", lowered.Key, lowered.Text)
		return nil, "", false, &both
	case err != nil:
		return nil, "", false, err
	case lowered.Key != "" && !change.Force:
		return nil, "", false, seqd.Errorf(seqd.CodeConflict, "%s: %s", lowered.Key, lowered.Text)
	case lowered.Key != "":
		warnings = append(warnings, seqd.Problem{Key: lowered.Key, Text: "this was forced: " + lowered.Text})
	}
	if start := keyOf(said.Definition, "start"); start != nil && (before.Deleted || !bytes.Equal(start, keyOf(before.Definition, "start"))) {
		var more []seqd.Problem
		more, err = c.start(ctx, b)
		warnings = append(warnings, more...)
	}
	if gap := seqd.TraitsOf(b.Settings).LeastGap; c.store.Lossy() && gap != 0 && gap < enoughGap && !bytes.Equal(keyOf(said.Definition, "restoreGap"), keyOf(before.Definition, "restoreGap")) {
		warnings = append(warnings, seqd.Problem{Key: "restoreGap", Text: fmt.Sprintf("a failover of the store skips %d numbers: if %s issues more in the time that "+
			"a standby can be behind, also in a burst, the failover repeats numbers", gap, b.Name)})
	}
	return warnings, shape, reshaped, err
}

// enoughGap is a gap that nobody is warned of: the default of restoreGap.
const enoughGap = 1_000_000

// unread returns the setting of a biz type that names a file or an environment variable which its
// previous definition does not use, "" if none does.
func (c *checker) unread(name string, b seqd.BizType, before stored) string {
	used := make(map[[2]string]bool)
	if old, err := c.decode(name, before.Definition); err == nil && !before.Deleted {
		eachOutside(old, func(_, key, named string) { used[[2]string{key, named}] = true })
	}
	unread := ""
	eachOutside(b, func(path, key, named string) {
		if !used[[2]string{key, named}] {
			unread = cmp.Or(unread, path)
		}
	})
	return unread
}

// eachOutside calls f for each setting of a biz type that names a file or an environment variable.
func eachOutside(b seqd.BizType, f func(path, key, named string)) {
	for i, binding := range b.Plugins {
		if t := seqd.TraitsOf(binding.Settings); t.Outside != "" {
			f(fmt.Sprintf("plugins[%d].%s", i, t.OutsideKey), t.OutsideKey, t.Outside)
		}
	}
}

// shape refuses a definition whose IDs could repeat previous ones (invariant U6), unless it is
// forced, or was forced before: a forced shape is on record only after a node has built it. forced
// is the shape that was forced, "" for none.
func (c *checker) shape(ctx context.Context, b seqd.BizType, revision int64, before string, change admin.Change) (forced string, now bool, err error) {
	makes := maker(b)
	if makes != "" && c.store.Shared() {
		return "", false, seqd.Errorf(seqd.CodeConflict, "the plugin %s would have to make a new key, "+
			"and every node another one: put the file of the key on every node first", makes)
	}
	known, err := c.shapes.Read(ctx, b.Name)
	fresh, unsaid := errors.Is(err, persist.ErrNotFound), checkNew(b, cmp.Or(before, known.Shape))
	switch {
	case err != nil && !fresh:
		return "", false, storeError(err)
	case fresh && before == "" && len(unsaid) > 0:
		return "", false, invalid(unsaid)
	case makes != "" && (fresh || change.Force && change.DryRun):
		return "", false, nil // a dry run makes no key
	case makes != "" && !change.Force:
		return "", false, seqd.Errorf(seqd.CodeConflict, "the plugin %s would have to make a new key, "+
			"with which %s can repeat previous IDs: put the file of the key on this node, use a new name, "+
			"or add force=true where you know that none repeats", makes, b.Name)
	}
	shape, err := Shape(b, cmp.Or(before, known.Shape))
	if err != nil {
		return "", false, &seqd.Error{
			Code:   seqd.CodeConflict,
			Detail: "the plugins of the definition cannot be used on this node; its log says more", Err: err,
		}
	}
	switch {
	case fresh:
		return "", false, nil
	case shape == before && (shape == known.Shape || !change.Force):
		return before, false, nil
	case shape == known.Shape:
		return "", false, c.settled(ctx, b, revision, before)
	case change.Force && len(unsaid) > 0:
		return "", false, invalid(unsaid)
	case change.Force && shape == before: // it was forced already, and no node has it on record
		return shape, true, nil
	case change.Force:
		return shape, true, c.settled(ctx, b, revision, known.Shape)
	}
	return "", false, &seqd.Error{
		Code: seqd.CodeConflict,
		Detail: b.Name + " has issued numbers in another shape than this definition gives them, which could repeat them: " +
			"use a new name, or add force=true where you know that none repeats",
		Err: fmt.Errorf("the store has %q, the definition says %q", known.Shape, shape),
	}
}

// unsettled reports whether a definition has a forced shape that is not on record.
func (c *checker) unsettled(ctx context.Context, name string, said stored) (bool, error) {
	if said.Deleted || said.Shape == "" {
		return false, nil
	}
	known, err := c.shapes.Read(ctx, name)
	if errors.Is(err, persist.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, storeError(err)
	}
	return known.Shape != said.Shape, nil
}

// settled returns why a biz type must not get another strategy yet, by force. If one of the two
// hands its numbers over ([strategy.Factory].Handover), the next one continues above them; so no
// node may issue with the previous one any more. Nor with other periods, zones or keys of such a
// strategy, which keeps answers with its counters: a repeated request would get a number of each.
func (c *checker) settled(ctx context.Context, b seqd.BizType, revision int64, shape string) error {
	before, _, _ := strings.Cut(shape, " ")
	if !c.store.Shared() || before == "" || !handsOver(before) && !handsOver(b.Strategy) || sameOwn(b, shape) {
		return nil
	}
	wait := settleTime - c.stoppedFor(b.Name, revision)
	if wait <= 0 {
		return nil
	}
	// It is refused too to disable a biz type that some nodes would not follow: those come first.
	if _, err := c.sources.change(ctx, b.Name, true, true); err != nil {
		return err
	}
	return &seqd.Error{
		Code: seqd.CodeConflict,
		Detail: fmt.Sprintf("other nodes may still issue numbers of %s with the strategy %s: disable it unless it is "+
			"disabled or deleted, wait %d s, force the change, and enable it", b.Name, before, int(math.Ceil(wait.Seconds()))),
		RetryAfter: wait,
	}
}

// sameOwn reports whether a shape differs from that of a biz type only by plugins.
func sameOwn(b seqd.BizType, shape string) bool {
	factory, err := strategy.Lookup(b.Strategy)
	return err == nil && claim{own: factory.Shape(b)}.sameStrategy(shape)
}

func handsOver(name string) bool {
	factory, err := strategy.Lookup(name)
	return err == nil && factory.Handover != nil
}

// maker returns the plugin of a biz type that would make something that does not exist, "" if none
// would.
func maker(b seqd.BizType) string {
	for _, binding := range b.Plugins {
		if makes(binding) {
			return binding.Name
		}
	}
	return ""
}

// makes reports whether a plugin would make something that does not exist.
func makes(binding seqd.PluginBinding) bool {
	factory, err := plugin.Lookup(binding.Name)
	if err != nil || factory.Missing == nil {
		return false
	}
	makes, _ := factory.Missing(binding)
	return makes
}

// keyOf returns the value of a key of a definition, nil if it has none.
func keyOf(text []byte, name string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return nil
	}
	for key, value := range fields {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}

// lowered returns what repeats numbers if it is lower than in the previous definition, or shows those
// of before in another way. Who leaves a setting out of a definition seldom means the default.
//
// Another system may have issued the numbers below the start of counters that are still to begin.
// And a node that does not know the new gap yet, or did not a moment ago, continues by the former one
// above a failover. If the next failover loses that, others issue the same numbers.
func (c *checker) lowered(ctx context.Context, b seqd.BizType, before stored) (seqd.Problem, error) {
	old, err := c.decode(b.Name, before.Definition)
	was, is := seqd.TraitsOf(old.Settings), seqd.TraitsOf(b.Settings)
	if err != nil {
		return seqd.Problem{}, nil // there is none, or it cannot be used
	}
	later := is.First != 0 && is.First < was.First
	if later && !is.Keyed && is.Calendar.Reset == seqd.ResetNever {
		if later, err = c.below(ctx, b.Name, was, before.Enabled); err != nil {
			return seqd.Problem{}, err
		}
	}
	moved, err := c.moved(ctx, b, was, is)
	switch {
	case err != nil:
		return seqd.Problem{}, err
	case moved:
		return seqd.Problem{Key: "timeZone", Text: fmt.Sprintf("a repeated request of %s, or the confirmation of a reservation, could show another date in an ID than "+
			"before: add force=true if nobody repeats one, or if IDs show no dates", b.Name)}, nil
	case later:
		return seqd.Problem{Key: "start", Text: fmt.Sprintf("counters of %s that have not begun would begin at %d, no longer at %d, and could repeat numbers "+
			"that another system has issued: say start again, or add force=true where you know that none repeats", b.Name, is.First, was.First)}, nil
	case c.store.Lossy() && is.LeastGap != 0 && is.LeastGap < was.LeastGap:
		return seqd.Problem{Key: "restoreGap", Text: fmt.Sprintf("after a failover of the store %s would skip at least %d numbers, which is restoreGap or ten steps, no longer %d. "+
			"Numbers could repeat if a failover loses what a node with the larger gap has just issued: keep it, or add force=true if the store "+
			"has not failed over in the last minutes and is not about to", b.Name, is.LeastGap, was.LeastGap)}, nil
	}
	return seqd.Problem{}, nil
}

// moved reports whether numbers that a ledger has handed out get the dates of another time zone. It
// keeps the numbers, and shows them anew. If they reset, the zone belongs to the shape.
func (c *checker) moved(ctx context.Context, b seqd.BizType, was, is seqd.Traits) (bool, error) {
	factory, err := strategy.Lookup(b.Strategy)
	if err != nil || !factory.Ledger || is.Calendar.Reset != seqd.ResetNever || was.Calendar.Reset != seqd.ResetNever ||
		was.Calendar.Zone.String() == is.Calendar.Zone.String() || !slices.ContainsFunc(b.Plugins, rewrites) {
		return false, nil
	}
	if !is.Keyed {
		state, err := c.ledger(ctx, b.Name)
		return state != nil && state.Last >= state.First, storeError(err)
	}
	for _, err := range persist.DocumentsUnder(ctx, c.store.Documents(), persist.LedgerKind, b.Name+"/") {
		return true, storeError(err)
	}
	return false, nil
}

// rewrites reports whether a plugin changes how numbers are shown.
func rewrites(binding seqd.PluginBinding) bool {
	factory, err := plugin.Lookup(binding.Name)
	return err == nil && factory.Shape != nil
}

// below reports whether the only counter of a biz type may not have reached its start yet. It is moved
// there as soon as it is defined, but not while the biz type is disabled, the store has failed over, or
// no node can build the definition.
func (c *checker) below(ctx context.Context, name string, traits seqd.Traits, enabled bool) (bool, error) {
	counter, err := c.store.Counters().Read(ctx, name)
	if err == nil {
		return counter.Max < traits.First-traits.Increment, nil
	}
	if errors.Is(err, persist.ErrNotFound) {
		_, err = c.store.Documents().Read(ctx, persist.LedgerKind, name) // of what is gapless
	}
	if errors.Is(err, persist.ErrNotFound) {
		return true, nil
	}
	return !enabled, storeError(err)
}

// ledger returns the state of a counter that is a ledger, nil if there is none.
func (c *checker) ledger(ctx context.Context, counter string) (*ledger.State, error) {
	doc, err := c.store.Documents().Read(ctx, persist.LedgerKind, counter)
	if errors.Is(err, persist.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ledger.Decode(&doc)
}

// start warns of a start that can have no effect. The store knows which numbers were given to
// nodes, not how many of them were issued.
func (c *checker) start(ctx context.Context, b seqd.BizType) ([]seqd.Problem, error) {
	traits, of := seqd.TraitsOf(b.Settings), b.Name
	first := max(1, traits.First)
	if calendar := traits.Calendar; calendar.Reset != seqd.ResetNever {
		of = calendar.Now(c.now()).Counter(b.Name)
	}
	if factory, err := strategy.Lookup(b.Strategy); err == nil && factory.Ledger {
		switch state, err := c.ledger(ctx, of); {
		case err != nil:
			return nil, storeError(err)
		case state != nil && first <= state.Last:
			return []seqd.Problem{{Key: "start", Text: fmt.Sprintf("start %d is not above %d, up to which numbers were handed out: it has no effect", first, state.Last)}}, nil
		}
	}
	counter, err := c.store.Counters().Read(ctx, of)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, storeError(err)
	case first <= counter.Max:
		return []seqd.Problem{{Key: "start", Text: fmt.Sprintf("start %d is not above %d, up to which numbers were given to nodes: "+
			"it has no effect if they have issued beyond it already", first, counter.Max)}}, nil
	}
	return nil, nil
}
