package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/config"
)

// storeCheck looks at the store and what it keeps.
type storeCheck struct{ d *Doctor }

// run checks the configured store.
func (c storeCheck) run(ctx context.Context, f *findings) {
	cfg := c.d.Config.Store
	if path, inFile := cfg.File(); inFile && !c.file(f, cfg.Key(), path) {
		return
	}
	store, err := c.look(ctx)
	if err == nil {
		defer store.Close()
	}
	readable := cfg.Chosen().Examine(ctx, driver.Examination{
		Add: f.add, Section: cfg.Section(), Key: cfg.Key(), Store: store, Err: err, Clock: c.d.clocks.heardStore, Ask: c.d.Ask,
		Nodes: func(ctx context.Context) int { return c.nodes(ctx, store) },
	})
	if readable {
		c.contents(ctx, f, store)
	}
}

// look opens the store for reading.
func (c storeCheck) look(ctx context.Context) (persist.Store, error) {
	return c.d.Config.Store.Chosen().Open(ctx, driver.How{Now: c.d.Now, ReadOnly: true})
}

// nodes returns how many nodes run on a store now, at least 1.
func (c storeCheck) nodes(ctx context.Context, store persist.Store) int {
	docs, err := store.Documents().List(ctx, "node", "", 1000)
	running := 0
	for _, doc := range docs {
		if err == nil && doc.Expires > c.d.Now().UnixMilli() {
			running++
		}
	}
	return max(running, 1)
}

// contents checks what a store contains.
func (c storeCheck) contents(ctx context.Context, f *findings, store persist.Store) {
	cluster, err := persist.ReadCluster(ctx, store.Documents())
	switch {
	case errors.Is(err, persist.ErrNotFound):
		c.fresh(f, "no seqd has run on it: "+c.d.Config.Store.Place())
	case err != nil:
		f.add(Fail, "store", "", "the cluster's ID cannot be read: %v", err)
		return
	default:
		made := time.UnixMilli(cluster.Timestamp)
		f.ok("store", "the cluster is %s, and was made at %s", cluster.ID, made.UTC().Format(time.RFC3339))
		if age := c.d.Now().Sub(made); age < newFor {
			f.add(Info, "store", "where numbers were issued before, stop seqd and look which store it has", "it is new: seqd first ran on it %s ago", days(age))
		}
	}
	c.sources(ctx, f, store)
	c.elsewhere(ctx, f, store)
	defined := c.definitions(ctx, f, store)
	c.shapes(ctx, f, store, defined)
	c.counters(ctx, f, store, defined)
	c.ledgers(ctx, f, store, defined)
	c.lacking(ctx, f, store)
}

// lacking compares the store with a log of changes.
func (c storeCheck) lacking(ctx context.Context, f *findings, store persist.Store) {
	if c.d.Lacking == nil {
		return
	}
	found, err := c.d.Lacking(ctx, store)
	if err != nil {
		f.add(Fail, "changes", "", "they cannot be compared: %v", err)
	}
	for _, one := range found {
		f.add(one.Level, one.Subject, one.Change, "%s", one.Found)
	}
}

// newFor is how long a store counts as new.
const newFor = 24 * time.Hour

// fresh reports a store that no seqd has run on.
func (c storeCheck) fresh(f *findings, found string) {
	if c.d.Config.Store.MustExist {
		f.add(Fail, "store.mustExist", "look whether the volume is mounted and the store is the right one; if it shall be new, start once without store.mustExist", "%s", found)
		return
	}
	f.add(Info, "store", "where numbers were issued before, give seqd the store that it had", "it is new, and all numbers begin at their start: %s", found)
}

// sources compares where the nodes have their definitions from.
func (c storeCheck) sources(ctx context.Context, f *findings, store persist.Store) {
	if !store.Shared() {
		return
	}
	switch mixed, err := c.d.Mixed(ctx, store); {
	case err != nil:
		f.add(Fail, "nodes", "", "they cannot be read: %v", err)
	case mixed != nil:
		f.add(Warn, "bizTypesFrom", "give all nodes the same", "%s", mixed.Detail)
	}
}

// elsewhere compares the Redis with the one that the store names.
func (c storeCheck) elsewhere(ctx context.Context, f *findings, store persist.Store) {
	if !store.Shared() {
		return
	}
	var client redis.UniversalClient
	if cfg := c.d.Config.Redis; cfg.Configured() {
		var err error
		if client, err = c.d.Redis(cfg); err != nil {
			return // said elsewhere
		}
		defer client.Close()
	}
	found, err := c.d.Elsewhere(ctx, store, client)
	for _, one := range found {
		f.add(one.Level, one.Subject, one.Change, "%s", one.Found)
	}
	if err != nil {
		f.add(Info, "redis.addrs", "", "whether the other nodes use the same Redis and the same coordinator was not compared: %v", err)
	}
}

// definitions compares the biz types of the store with those of the configuration, and returns the
// ones that nodes use.
func (c storeCheck) definitions(ctx context.Context, f *findings, store persist.Store) map[string]seqd.BizType {
	defined := make(map[string]seqd.BizType)
	for _, b := range c.d.Config.BizTypes {
		defined[b.Name] = b
	}
	if c.d.Config.BizTypesFrom == config.FromConfig {
		return defined
	}
	list, err := c.d.Definitions(ctx, store)
	if err != nil {
		f.add(Fail, "definitions", "", "those of the store cannot be read: %v", err)
		return defined
	}
	var (
		differ, deleted []string
		others          []seqd.BizType // that the configuration does not have, or has otherwise
	)
	for _, s := range list {
		name := s.BizType.Name
		delete(defined, name)
		switch {
		case s.Deleted:
			deleted = append(deleted, name)
			continue
		case s.Err != nil:
			f.add(Fail, name, "put a good one there by the API", "%v", s.Err)
			continue
		case s.Differs:
			differ = append(differ, name)
		}
		defined[name] = s.BizType
		if !s.Configured { // else it was looked at with the configuration
			configCheck(c).segmentSettings(f, s.BizType)
			configCheck(c).snowflakeSettings(f, s.BizType)
			others = append(others, s.BizType)
		}
	}
	filesCheck(c).bizTypeFiles(f, others)
	hostsCheck(c).reach(ctx, f, webhooks(others))
	if len(differ) > 0 {
		f.add(Warn, "definitions", "change them by the API, or bring the configuration up to date", "the store says something else than the configuration, and that counts: %s", some(differ))
	}
	if len(deleted) > 0 {
		f.add(Info, "definitions", "", "deleted, and they stay so whatever the configuration says: %s", some(deleted))
	}
	f.ok("definitions", "%d in the store", len(list))
	return defined
}

// some lists the first few names.
func some(names []string) string {
	const most = 10
	slices.Sort(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// shapes finds the biz types whose IDs would have another shape than before: seqd refuses to issue
// them.
func (c storeCheck) shapes(ctx context.Context, f *findings, store persist.Store, defined map[string]seqd.BizType) {
	same := 0
	for shape, err := range persist.ShapesIn(store.Documents()).Every(ctx) {
		if err != nil {
			f.add(Fail, "shapes", "", "they cannot be read: %v", err)
			return
		}
		b, ok := defined[shape.BizType]
		if !ok {
			continue
		}
		if file, missing := missingKey(b); missing {
			f.add(Fail, b.Name, "put the file of another node or of a backup there", "it has issued numbers, and its key file %s is not here: a new key would be refused", file)
			continue
		}
		switch said, err := c.d.Shape(b, shape.Shape); {
		case err != nil:
			f.add(Fail, b.Name, "", "what its IDs look like cannot be told: %v", err)
		case said != shape.Shape:
			f.add(Fail, b.Name, "put the configuration back, or use another name", "seqd would refuse it: it has issued IDs of another shape than it is configured to")
		default:
			same++
		}
	}
	f.ok("shapes", "%d biz types issue as they did before", same)
}

// missingKey returns the key file of a biz type if it does not exist. Asking for the shape would
// create it.
func missingKey(b seqd.BizType) (file string, missing bool) {
	for _, p := range b.Plugins {
		file, _ := config.Setting[string](p.Settings, "keyFile")
		if _, err := os.Stat(file); file != "" && errors.Is(err, fs.ErrNotExist) {
			return file, true
		}
	}
	return "", false
}

// counters checks how many numbers are left, how large the steps are, and how many keys there are.
func (c storeCheck) counters(ctx context.Context, f *findings, store persist.Store, defined map[string]seqd.BizType) {
	count, keys := 0, newKeys(defined)
	for known, err := range persist.EveryCounter(ctx, store.Counters()) {
		switch {
		case err != nil && ctx.Err() != nil:
			f.add(Info, "counters", "", "%d can be read, and there was no time for more", count)
			return
		case err != nil:
			f.add(Fail, "counters", "restore a backup; see docs/operations/restore.md", "they cannot be read: %v", err)
			return
		}
		name, key, digits, whole := seqd.SplitCounter(known.BizTag)
		b, ok := defined[name]
		if !whole {
			// It counts no numbers: it says how many keys there are, or, for nodes of the previous
			// version, which periods were removed.
			continue
		}
		count++
		switch {
		case !ok:
		case key == "":
			c.counter(f, b, known)
		default:
			keys.add(name, digits)
			keys.left(known.BizTag, mostNumbers(b), known.Max)
		}
	}
	keys.report(f)
	f.ok("counters", "%d can be read", count)
}

// nearly is the share of all numbers, as one in so many, below which a warning is given.
const nearly = 10

func (c storeCheck) counter(f *findings, b seqd.BizType, known persist.Counter) {
	most := mostNumbers(b)
	if left := most - known.Max; left < most/nearly {
		f.add(Warn, known.BizTag, "plan for more digits, or for a new biz type", "%d of %d numbers are left", max(0, left), most)
	}
	largest, _ := config.Setting[int64](b.Settings, "maxStep")
	target, _ := config.Setting[time.Duration](b.Settings, "targetDuration")
	lasted := c.d.Now().Sub(time.UnixMilli(known.Timestamp))
	if known.Step == largest && lasted < target/2 && known.Timestamp > 0 {
		f.add(Warn, known.BizTag+".maxStep", fmt.Sprintf("set it to %d or more", 4*largest),
			"the step is at %d, its most, and the last one was taken %s ago: it does not last targetDuration (%s)", largest, lasted.Round(time.Second), target)
	}
}
