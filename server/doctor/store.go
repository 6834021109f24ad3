package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/server/config"
)

// storeCheck looks at the store and what it keeps.
type storeCheck struct{ d *Doctor }

// run checks the store of the configured driver.
func (c storeCheck) run(ctx context.Context, f *findings) {
	switch c.d.Config.Store.Driver {
	case "bolt":
		c.boltFile(ctx, f)
	case "mongo":
		c.mongoServer(ctx, f)
	}
}

// look opens the store for reading.
func (c storeCheck) look(ctx context.Context) (persist.Store, error) {
	switch c.d.Config.Store.Driver {
	case "bolt":
		return c.openBolt()
	case "mongo":
		return c.openMongo(ctx)
	}
	return nil, errors.ErrUnsupported
}

func (c storeCheck) openBolt() (*bolt.Store, error) {
	return bolt.OpenReadOnly(bolt.Options{Path: c.d.Config.Store.Bolt.Path, LockTimeout: lockPatience, Now: c.d.Now})
}

func (c storeCheck) openMongo(ctx context.Context) (*mongo.Store, error) {
	cfg := c.d.Config.Store.Mongo
	return mongo.Open(ctx, mongo.Options{URI: cfg.URI, Database: cfg.Database, Timeout: min(cfg.Timeout, mostTimeout), Now: c.d.Now, ReadOnly: true})
}

// lockPatience is how long another process may hold the file before it counts as in use.
const lockPatience = 200 * time.Millisecond

const boltKey = "store.bolt.path"

// Less free space than this is reported.
const (
	leastFree  = 1 << 30
	leastShare = 20 // of the whole, as one in
)

func (c storeCheck) boltFile(ctx context.Context, f *findings) {
	path := c.d.Config.Store.Bolt.Path
	filesCheck(c).folder(f, boltKey, filepath.Dir(path))
	c.fileSystem(f, path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.add(Info, boltKey, "where numbers were issued before, put the file back before seqd starts", "there is no %s: seqd makes it, and all numbers begin at their start", path)
		return
	case err != nil:
		f.add(Fail, boltKey, "", "%v", err)
		return
	case info.Mode().Perm()&0o077 != 0:
		f.add(Warn, boltKey, "chmod 600 "+path, "%s can be used by others than its owner (mode %#o)", path, info.Mode().Perm())
	}
	filesCheck(c).written(f, boltKey, path)
	store, err := c.openBolt()
	switch {
	case errors.Is(err, bolt.ErrInUse):
		c.inUse(ctx, f, path)
		return
	case errors.Is(err, bolt.ErrOlder):
		f.add(Info, boltKey, "make a backup before seqd starts: the previous version cannot open the file afterwards", "%v", err)
		return
	case err != nil:
		f.add(Fail, boltKey, "restore a backup; see docs/OPERATIONS.md", "%v", err)
		return
	}
	defer store.Close()
	f.ok(boltKey, "%s is of format %d and no process has it", path, bolt.Format)
	c.contents(ctx, f, store)
	switch files, answers, err := store.InspectAnswers(); {
	case err != nil:
		f.add(Fail, boltKey, "restore the folder, or remove it as a whole; see docs/IDEMPOTENCY.md",
			"the answers to requests with an Idempotency-Key, which are refused while this lasts: %v", err)
	case files > 0:
		f.ok(boltKey, "%d answers to requests with an Idempotency-Key are in %d files", answers, files)
	}
}

// inUse asks the node that holds the file how it is.
func (c storeCheck) inUse(ctx context.Context, f *findings, path string) {
	said, err := c.d.Ask(ctx)
	if err != nil {
		f.add(Warn, boltKey, "find out what has it, with fuser or lsof", "%s is in use, and no seqd answers: %v", path, err)
		return
	}
	f.add(Info, boltKey, "to have it looked into, stop seqd first", "%s is in use by a running seqd: %s", path, said)
}

// volatile are the file systems that are unfit for a data file, and why.
var volatile = map[string]string{
	"tmpfs": "it is memory: all numbers restart with the machine", "ramfs": "it is memory: all numbers restart with the machine",
	"overlay": "it is the container's own file system, which goes with the container",
	"nfs":     "locks and fsync over a network do not always hold", "cifs": "locks and fsync over a network do not always hold",
	"smb2": "locks and fsync over a network do not always hold", "fuse": "whether fsync holds is up to what is behind it", "9p": "whether fsync holds is up to what is behind it",
}

func (c storeCheck) fileSystem(f *findings, path string) {
	there := path
	for _, err := os.Stat(there); err != nil && filepath.Dir(there) != there; _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	disk, err := c.d.Host.Disk(there)
	if err != nil {
		f.add(Info, boltKey, "", "its file system cannot be told: %v", err)
		return
	}
	if why, bad := volatile[disk.Kind]; bad {
		f.add(Warn, boltKey, "put it on a volume of a local disk", "%s is on %s: %s", path, disk.Kind, why)
	}
	free := fmt.Sprintf("%d MiB of %d MiB are free", disk.Free>>20, disk.Size>>20)
	if disk.Free < leastFree || disk.Free < disk.Size/leastShare {
		f.add(Warn, boltKey, "make room: a file that must grow and cannot gives no numbers", "%s on %s", free, disk.Kind)
		return
	}
	f.ok(boltKey, "%s on %s", free, disk.Kind)
}

const mongoKey = "store.mongo.uri"

// A server that is slower than slowStore is reported, and asked for at most mostTimeout.
const (
	slowStore   = 50 * time.Millisecond
	mostTimeout = 4 * time.Second
)

func (c storeCheck) mongoServer(ctx context.Context, f *findings) {
	store, err := c.openMongo(ctx)
	if err != nil {
		f.add(Fail, mongoKey, "start the server, or correct the address, user and password", "%s", strings.TrimPrefix(err.Error(), mongoKey+": "))
		return
	}
	defer store.Close()
	server, err := store.Inspect(ctx)
	if err != nil {
		f.add(Fail, mongoKey, "", "the server cannot be asked about itself: %v", err)
		return
	}
	c.d.clocks.heard(storeClock, server.Offset, server.RoundTrip)
	judge(f, server)
	c.contents(ctx, f, store)
}

// judge reports what is wrong with a server.
func judge(f *findings, s mongo.Server) {
	level, change := OK, ""
	if s.RoundTrip > slowStore {
		level, change = Warn, "put it nearer: each segment takes one or two answers"
	}
	f.add(level, mongoKey, change, "MongoDB %s answers in %s", s.Version, s.RoundTrip.Round(10*time.Microsecond))
	switch {
	case s.Router:
		f.ok(mongoKey, "it is a router of a sharded cluster")
	case s.ReplicaSet == "":
		f.add(Warn, mongoKey, "use a replica set of three", "it is a server of its own: majority means this one, and when it is lost so is what it knew")
	case s.Members < 3:
		f.add(Warn, mongoKey, "use three", "the replica set %s names %d servers with data: it cannot lose one and take writes", s.ReplicaSet, s.Members)
	default:
		f.ok(mongoKey, "the replica set %s names %d servers", s.ReplicaSet, s.Members)
	}
	if s.Former {
		f.add(Info, mongoKey, "", "the database is new or of an earlier version; the next seqd that starts upgrades it, and until then its shapes are not compared")
	}
	if !s.Primary {
		f.add(Fail, mongoKey, "see that there is a primary", "no server that takes writes answers")
	}
	f.ok(mongoKey, "every write asks for majority and journal; a server without a journal refuses the first one, which was not tried")
	switch {
	case s.User == "":
		f.add(Warn, mongoKey, "turn authorization on", "the server does not authenticate clients: anyone who reaches it can change counters")
	case len(s.Missing) > 0:
		f.add(Fail, mongoKey, "give it the role readWrite on the database", "the user %s may not %s", s.User, strings.Join(s.Missing, ", "))
	default:
		f.ok(mongoKey, "the user %s has the rights it needs", s.User)
	}
}

// contents checks what a store contains.
func (c storeCheck) contents(ctx context.Context, f *findings, store persist.Store) {
	cluster, err := persist.ReadCluster(ctx, store.Documents())
	switch {
	case errors.Is(err, persist.ErrNotFound):
		f.add(Info, "store", "", "it has no cluster ID yet: no seqd has run on it")
	case err != nil:
		f.add(Fail, "store", "", "the cluster's ID cannot be read: %v", err)
		return
	default:
		f.ok("store", "the cluster is %s", cluster.ID)
	}
	defined := c.definitions(ctx, f, store)
	c.shapes(ctx, f, store, defined)
	c.counters(ctx, f, store, defined)
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
		switch said, err := c.d.Shape(b); {
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

// counters checks how many numbers are left, and how large the steps are.
func (c storeCheck) counters(ctx context.Context, f *findings, store persist.Store, defined map[string]seqd.BizType) {
	count := 0
	for known, err := range persist.EveryCounter(ctx, store.Counters()) {
		if err != nil {
			f.add(Fail, "counters", "restore a backup; see docs/OPERATIONS.md", "they cannot be read: %v", err)
			return
		}
		count++
		name, _, _ := strings.Cut(known.BizTag, "@")
		// it says which periods were removed, for nodes of the previous version
		former := strings.HasSuffix(known.BizTag, "@")
		if b, ok := defined[name]; ok && !former {
			c.counter(f, b, known)
		}
	}
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
