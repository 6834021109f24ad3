package doctor

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	// mostCursors is how many counters are compared with their cursors, and cursorPage how many of
	// them at a time.
	mostCursors, cursorPage = 10_000, 500
	// mostBehind is how many of the counters that are behind are named.
	mostBehind = 10
)

// cursors compares each counter in the store with its cursor in Redis. A cursor never holds numbers
// above the store's maximum, except after the store was restored from an older copy.
func (c redisCheck) cursors(ctx context.Context, f *findings, client redis.UniversalClient) {
	store, err := storeCheck(c).look(ctx)
	if err != nil {
		return // said elsewhere
	}
	defer store.Close()
	if !store.Shared() {
		return
	}
	opts := rediscursor.Options{Client: client, Prefix: c.d.Config.Redis.KeyPrefix}
	compared, behind := 0, 0
	for after := ""; compared < mostCursors; {
		page, err := store.Counters().List(ctx, after, cursorPage)
		if err != nil || len(page) == 0 {
			break
		}
		names := make([]string, len(page))
		for i, c := range page {
			names[i] = c.BizTag
		}
		after = names[len(names)-1]
		ceils, err := rediscursor.Ceils(ctx, opts, names)
		if err != nil {
			f.add(Warn, "redis", "", "the cursors cannot be compared with the store: %v", err)
			return
		}
		for _, late := range behindCursors(ctx, store.Counters(), page, ceils) {
			if behind++; behind <= mostBehind {
				f.add(Fail, "store", "if a backup was restored, stop every seqd and run: seqd raise "+late.name+" "+strconv.FormatInt(late.ceil, 10),
					"the counter of %s stands at %d, and numbers up to %d were in the cursor in Redis: the store was restored from an older copy", late.name, late.max, late.ceil)
			}
		}
		compared += len(page)
	}
	switch {
	case behind > mostBehind:
		f.add(Fail, "store", "", "%d more counters stand below their cursors", behind-mostBehind)
	case behind == 0 && compared > 0:
		f.ok("store", "no counter stands below its cursor in Redis; %d were compared", compared)
	}
}

// late is a counter that is below its cursor.
type late struct {
	name      string
	max, ceil int64
}

// behindCursors returns the counters that are below their cursors. It asks the store again, because
// nodes may have allocated since.
func behindCursors(ctx context.Context, counters persist.Counters, page []persist.Counter, ceils []int64) (behind []late) {
	for i, c := range page {
		if ceils[i] <= c.Max {
			continue
		}
		now, err := counters.Read(ctx, c.BizTag)
		if err == nil && ceils[i] > now.Max {
			behind = append(behind, late{c.BizTag, now.Max, ceils[i]})
		}
	}
	return behind
}
