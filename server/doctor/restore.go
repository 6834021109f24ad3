package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	// cursorPage is how many counters are compared with their cursors at a time.
	cursorPage = 500
	// mostBehind is how many of the counters that are behind have a line, and mostUnvouched how many
	// names of others a report has, if the store was restored.
	mostBehind, mostUnvouched = 1_000, 10_000
)

// restoreCheck looks for signs that the store was restored from an older copy, and names each
// counter of which nothing outside the store says how far it came: nobody but an operator knows
// that.
//
// A cursor in Redis never holds numbers above the store's maximum, except after a restore. Counters
// without one are those that the store sequences, those of ordering per-node, gapless ones, and
// those of a store without Redis.
type restoreCheck struct{ d *Doctor }

// vouching is what a look at all counters finds.
type vouching struct {
	restoreCheck
	f        *findings
	store    persist.Store
	cursors  *rediscursor.Options // nil if there are none to compare with
	known    map[string]bool      // the counters without a key
	compared int
	behind   []late
	// unvouched are counters without a cursor, the first mostUnvouched; more is how many others.
	unvouched []string
	more      int
}

// late is a counter that is below its cursor.
type late struct {
	name      string
	max, ceil int64
}

func (c restoreCheck) run(ctx context.Context, f *findings) {
	if c.d.Config.Store.Forgets() {
		return
	}
	store, err := storeCheck(c).look(ctx)
	if err != nil {
		return // said elsewhere
	}
	defer store.Close()
	var client redis.UniversalClient
	if c.d.Config.Redis.Configured() && store.Shared() {
		if client, err = c.d.Redis(c.d.Config.Redis); err != nil {
			return
		}
		defer client.Close()
	}
	c.judge(ctx, f, store, client)
}

// judge judges the counters of a store. client is that of the Redis that has the cursors, nil if
// there is none.
func (c restoreCheck) judge(ctx context.Context, f *findings, store persist.Store, client redis.UniversalClient) {
	cluster, err := persist.ReadCluster(ctx, store.Documents())
	if err != nil {
		return // said elsewhere
	}
	v := &vouching{restoreCheck: c, f: f, store: store, known: make(map[string]bool)}
	if client != nil {
		if v.follow(ctx, client, cluster.ID); v.cursors == nil {
			f.add(Warn, "store", "", "the counters cannot be compared with their cursors in Redis")
		}
	}
	if err = v.look(ctx); err == nil {
		err = v.missing(ctx)
	}
	if err != nil {
		f.add(Info, "store", "", "not all counters could be compared: %v", err)
	}
	v.report()
}

// follow uses the cursors if Redis serves this cluster. If it serves another one, its cursors say
// nothing of this store.
func (v *vouching) follow(ctx context.Context, client redis.UniversalClient, cluster string) {
	opts := &rediscursor.Options{Client: client, Prefix: v.d.Config.Redis.KeyPrefix, Cluster: cluster}
	if owner, err := rediscursor.Owner(ctx, *opts); err == nil && (owner == "" || owner == cluster) {
		v.cursors = opts
	}
}

// look looks at all counters, and at all gapless ones.
func (v *vouching) look(ctx context.Context) error {
	for after := ""; ; {
		page, err := v.store.Counters().List(ctx, after, cursorPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].BizTag
		page = slices.DeleteFunc(page, func(c persist.Counter) bool {
			_, _, _, whole := seqd.SplitCounter(c.BizTag)
			return !whole // it counts no numbers
		})
		if err := v.compare(ctx, page); err != nil {
			return err
		}
	}
	for doc, err := range persist.EveryDocument(ctx, v.store.Documents(), persist.LedgerKind) {
		if err != nil {
			return err
		}
		v.note(doc.Key)
		v.doubt(doc.Key)
	}
	return nil
}

// compare compares counters with their cursors.
func (v *vouching) compare(ctx context.Context, page []persist.Counter) error {
	ceils := make([]int64, len(page))
	if v.cursors != nil && len(page) > 0 {
		names := make([]string, len(page))
		for i, c := range page {
			names[i] = c.BizTag
		}
		var err error
		if ceils, err = rediscursor.Ceils(ctx, *v.cursors, names); err != nil {
			return err
		}
	}
	for i, c := range page {
		v.note(c.BizTag)
		switch {
		case ceils[i] == 0:
			v.doubt(c.BizTag)
		case ceils[i] > c.Max:
			// nodes may have allocated since
			if now, err := v.store.Counters().Read(ctx, c.BizTag); err == nil && ceils[i] > now.Max {
				v.behind = append(v.behind, late{c.BizTag, now.Max, ceils[i]})
			}
			fallthrough
		default:
			v.compared++
		}
	}
	return nil
}

// note notes that the store has a counter.
func (v *vouching) note(counter string) {
	if _, key, _, _ := seqd.SplitCounter(counter); key == "" {
		v.known[counter] = true
	}
}

// doubt notes a counter of which nothing outside the store says how far it came.
func (v *vouching) doubt(text string) {
	if len(v.unvouched) < mostUnvouched {
		v.unvouched = append(v.unvouched, text)
	} else {
		v.more++
	}
}

// missing looks for the counters that biz types would use now, and that the store does not have:
// they are new, or began after the backup.
func (v *vouching) missing(ctx context.Context) error {
	list := slices.Clone(v.d.Config.BizTypes)
	if v.d.Config.BizTypesFrom == config.FromStore {
		stored, err := v.d.Definitions(ctx, v.store)
		if err != nil {
			return err
		}
		for _, s := range stored {
			list = slices.DeleteFunc(list, func(b seqd.BizType) bool { return b.Name == s.BizType.Name })
			if !s.Deleted && s.Err == nil {
				list = append(list, s.BizType)
			}
		}
	}
	var names []string
	for _, b := range list {
		counter, counts := v.d.CounterOf(b, v.d.Now())
		if counts && !v.known[counter] && !seqd.TraitsOf(b.Settings).Keyed {
			names = append(names, counter)
		}
	}
	ceils := make([]int64, len(names))
	if v.cursors != nil && len(names) > 0 {
		var err error
		if ceils, err = rediscursor.Ceils(ctx, *v.cursors, names); err != nil {
			return err
		}
	}
	for i, name := range names {
		if ceils[i] > 0 {
			v.behind = append(v.behind, late{name, 0, ceils[i]})
		} else {
			v.doubt(name + " (which the store does not have)")
		}
	}
	return nil
}

func (v *vouching) report() {
	for i, late := range v.behind {
		if i == mostBehind {
			v.f.add(Fail, "store", "", "%d more counters stand below their cursors", len(v.behind)-i)
			break
		}
		v.f.add(Fail, "store", fmt.Sprintf("if a backup was restored, stop every seqd and run: seqd raise %s %d", late.name, late.ceil),
			"the counter of %s stands at %d, and numbers up to %d were in the cursor in Redis: the store was restored from an older copy", late.name, late.max, late.ceil)
	}
	if len(v.behind) == 0 && v.compared > 0 {
		v.f.ok("store", "no counter stands below its cursor in Redis; %d were compared", v.compared)
	}
	if len(v.unvouched) == 0 {
		return
	}
	level, shown, more := Info, some10{}, v.more
	if len(v.behind) > 0 || v.d.Lacking != nil { // then all are named
		level, shown.names = Warn, v.unvouched
	} else {
		for _, name := range v.unvouched {
			shown.add(name)
		}
		more += shown.more
	}
	text := strings.Join(shown.names, ", ")
	if more > 0 {
		text += fmt.Sprintf(", and %d more (seqd raise --dry-run shows all)", more)
	}
	v.f.add(level, "counters", "if a backup was restored, seqd raise each above all that callers got, and the keys and periods that began since the backup",
		"of %d nothing outside the store says how far they came: %s", len(v.unvouched)+v.more, text)
}
