package history

import (
	"time"

	"github.com/seqd/seqd"
)

// Settings are the settings of one binding. Bindings with equal settings share one queue and one
// writer.
type Settings struct {
	// To is where records go: `store` (the one that numbers come from) or `file`.
	To string `config:"to" range:"store, file"`
	// File says which files. It has no effect under To store.
	File FileSettings `config:"file"`
	// Queue is the largest number of records that wait to be written, including those that are being
	// written.
	Queue int `config:"queue" range:"1 to 1,000,000" unit:"records"`
	// Batch is the largest number of records written at once. It is at most `queue`.
	Batch int `config:"batch" range:"1 to 10,000" unit:"records"`
	// FlushInterval is how long the first record of a batch waits before the batch is written
	// although it is not full.
	FlushInterval time.Duration `config:"flushInterval" range:"1ms to 1m"`
	// OnOverflow is what happens to a request while the queue is full. `drop`: it is answered and its
	// record is lost, which is counted and logged. `block`: it waits for `blockTimeout`, then it is
	// refused. `reject`: it is refused at once.
	OnOverflow string `config:"onOverflow" range:"drop, block, reject"`
	// BlockTimeout is how long a request waits for room under `block`, once before it takes numbers
	// and once after.
	BlockTimeout time.Duration `config:"blockTimeout" range:"1ms to 1m"`
	// Retention is the age at which records are removed.
	Retention time.Duration `config:"retention" range:"0s, or at least 1m" zero:"never"`

	reach *seqd.Reach // which files File may name
}

// FileSettings say which files records go to.
type FileSettings struct {
	// Path is the current file, in `bizTypeFolder`. Older ones are in the same folder.
	Path string `config:"path"`
	// MaxSize is the size at which the next file is started.
	MaxSize int64 `config:"maxSize" range:"65,536 to 1,099,511,627,776" unit:"bytes"`
	// MaxFiles is how many older files are kept.
	MaxFiles int `config:"maxFiles" range:"0 to 100,000" unit:"files" zero:"all"`
}

// Values of To.
const (
	ToStore = "store"
	ToFile  = "file"
)

// Values of OnOverflow.
const (
	Drop   = "drop"
	Block  = "block"
	Reject = "reject"
)

// DefaultSettings returns the default settings.
func DefaultSettings() Settings {
	return Settings{
		To:            ToStore,
		File:          FileSettings{Path: "data/history.jsonl", MaxSize: 100 << 20},
		Queue:         10_000,
		Batch:         500,
		FlushInterval: 200 * time.Millisecond,
		OnOverflow:    Drop,
		BlockTimeout:  2 * time.Second,
	}
}

const (
	mostQueue = 1_000_000
	mostBatch = 10_000
	mostFiles = 100_000

	leastSize, mostSize = 64 << 10, 1 << 40
)

// Validate returns every setting that is out of range.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	within := func(d, least, most time.Duration) bool { return d >= least && d <= most }
	check(s.To == ToStore || s.To == ToFile, "to", "%q is not one of %q", s.To, []string{ToStore, ToFile})
	check(s.Queue >= 1 && s.Queue <= mostQueue, "queue", "%d is outside 1 to %d", s.Queue, mostQueue)
	check(s.Batch >= 1 && s.Batch <= min(max(1, s.Queue), mostBatch), "batch", "%d is outside 1 to %d, and at most queue, which is %d", s.Batch, mostBatch, s.Queue)
	check(within(s.FlushInterval, time.Millisecond, time.Minute), "flushInterval", "%s is outside 1ms to 1m", s.FlushInterval)
	check(s.OnOverflow == Drop || s.OnOverflow == Block || s.OnOverflow == Reject, "onOverflow", "%q is not one of %q", s.OnOverflow, []string{Drop, Block, Reject})
	check(within(s.BlockTimeout, time.Millisecond, time.Minute), "blockTimeout", "%s is outside 1ms to 1m", s.BlockTimeout)
	check(s.Retention == 0 || s.Retention >= time.Minute, "retention", "%s is neither 0 (for ever) nor at least 1m", s.Retention)
	check(s.To != ToFile || s.File.Path != "", "file.path", "is empty")
	check(s.To != ToFile || !besideHistory.MatchString(s.File.Path), "file.path", "%.200q is a name that older files or locks have", s.File.Path)
	check(s.File.MaxSize >= leastSize && s.File.MaxSize <= mostSize, "file.maxSize", "%d is outside %d to %d bytes", s.File.MaxSize, leastSize, int64(mostSize))
	check(s.File.MaxFiles >= 0 && s.File.MaxFiles <= mostFiles, "file.maxFiles", "%d is outside 0 to %d", s.File.MaxFiles, mostFiles)
	return problems
}

// Confine implements [seqd.Confined].
func (s *Settings) Confine(r *seqd.Reach) []seqd.Problem {
	s.reach = r
	if s.To != ToFile {
		return nil
	}
	if err := r.Check(s.File.Path); err != nil {
		return []seqd.Problem{{Key: "file.path", Text: err.Error()}}
	}
	return nil
}

// Traits implements [seqd.HasTraits]: a request may wait for room.
func (s *Settings) Traits() (t seqd.Traits) {
	t.KeptFor = s.Retention
	if s.OnOverflow == Block {
		t.MaxWait = 2 * s.BlockTimeout
	}
	return t
}

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.HasTraits = (*Settings)(nil)
	_ seqd.Confined  = (*Settings)(nil)
)
