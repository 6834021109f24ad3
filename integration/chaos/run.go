package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/check"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// Options are the options of a run.
type Options struct {
	Seed     int64
	Duration time.Duration
	Dir      string // folder for the record and the logs; empty for a temporary one
	Binaries Binaries
	System   System
	// Sabotaged means that seqd lacks a rule. Then only violations of promises about numbers count,
	// because only they show that it was noticed.
	Sabotaged bool
	Only      []string // the classes of faults; none for all
	Pace      int      // see [load.Load]
	Out       io.Writer
}

// Vacant returns an error if a folder has the record of another run, before anything is started.
func Vacant(dir string) error {
	switch _, err := os.Lstat(filepath.Join(dir, "record")); {
	case dir == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s has the record of another run", dir)
}

// sampleEvery is the pause between two looks at /readyz.
const sampleEvery = 200 * time.Millisecond

// patience is how long anything may take that this machine must do: a server or a node starts or
// ends, an operator's action is repeated, all nodes are ready after the last fault.
const patience = 2 * time.Minute

// laboratory is one run.
type laboratory struct {
	Options
	*load.Load
	world  *world
	writer *record.Writer
	loaded sync.WaitGroup // the load

	watching sync.WaitGroup // the samplers

	temporary bool // Dir is temporary

	mu     sync.Mutex // guards what follows
	broken map[*redisServer]bool
	away   int   // current faults that make the store unavailable
	backAt int64 // when the last of them ended
	idle   int   // faults that found nothing to break
	late   bool  // load.LateName was created
}

// Run creates a world, breaks it under load, stops it and runs the checker. The code is 0 without a
// violation, 1 with one, and 2 if the laboratory itself failed.
func Run(ctx context.Context, o Options) (code int, err error) {
	calls := &load.Load{Seed: o.Seed, Shapes: load.Shapes(o.System.load()), HTTP: load.NewHTTPClient(), Loops: load.Usual, Pace: o.Pace}
	l := &laboratory{Options: o, Load: calls, broken: map[*redisServer]bool{}}
	if err := l.makeFolders(); err != nil {
		return 2, err
	}
	if err := l.run(ctx); err != nil {
		return 2, fmt.Errorf("%w (the record and the logs are in %s)", err, l.Dir)
	}
	report, err := check.File(l.record(), check.Options{})
	if err != nil {
		return 2, fmt.Errorf("check %s: %w", l.record(), err)
	}
	return l.conclude(report)
}

// conclude prints the report. It keeps the record if there is a violation or a folder was given.
func (l *laboratory) conclude(report *check.Report) (code int, err error) {
	text := report.String()
	if err := os.WriteFile(filepath.Join(l.Dir, "report"), []byte(text), 0o644); err != nil {
		return 2, err
	}
	found := report.Total()
	if l.Sabotaged {
		found = report.OfNumbers()
	}
	if found > 0 {
		code = 1
	}
	if report.Total() == 0 && l.temporary {
		err = os.RemoveAll(l.Dir)
	} else {
		fmt.Fprintf(l.Out, "the record, the report and the logs are in %s\n", l.Dir)
	}
	fmt.Fprint(l.Out, text)
	return code, err
}

func (l *laboratory) record() string { return filepath.Join(l.Dir, "record") }

// makeFolders creates the folder for the record and the logs.
func (l *laboratory) makeFolders() (err error) {
	if l.temporary = l.Dir == ""; l.temporary {
		l.Dir, err = os.MkdirTemp("", "seqd-chaos-")
	} else {
		err = os.MkdirAll(l.Dir, 0o755)
	}
	if err == nil {
		l.Dir, err = filepath.Abs(l.Dir)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(l.Dir, "logs"), 0o755)
	}
	return err
}

// run runs the experiment.
func (l *laboratory) run(ctx context.Context) error {
	bizTypes, sparse, err := load.Configuration(l.Shapes)
	if err != nil {
		return err
	}
	began := time.Now()
	if l.world, err = newWorld(l.System, filepath.Join(l.Dir, "logs"), l.Binaries, bizTypes, sparse); err != nil {
		return err
	}
	fmt.Fprintf(l.Out, "the servers run after %v\n", time.Since(began).Round(time.Millisecond))
	for _, n := range l.world.seqds {
		l.Nodes = append(l.Nodes, n)
	}
	if l.writer, err = record.Create(l.record()); err != nil {
		return err
	}
	defer func() { _ = l.writer.Close() }()
	if l.Journal, err = load.NewJournal(l.writer, l.Out, l.Shapes); err != nil {
		return err
	}
	l.begin()
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	if err := l.startNodes(ctx); err != nil {
		return err
	}
	l.watch(watched)
	err = l.experiment(ctx)
	stopWatching()
	l.watching.Wait()
	if err != nil {
		return err
	}
	l.stopNodes()
	l.Journal.Write(record.Entry{Done: &record.Done{At: l.Journal.Now()}})
	return l.writer.Close()
}

// begin records the world of the run.
func (l *laboratory) begin() {
	w := record.World{Seed: l.Options.Seed, Store: l.System.String(), Began: l.Journal.Began.UnixNano(), Duration: int64(l.Duration)}
	for _, n := range l.world.seqds {
		w.Nodes = append(w.Nodes, n.Name())
	}
	w.Protocols = []string{record.RESP, record.Leaf, record.Tinyid, record.CosID, record.Client}
	for i := range l.Shapes {
		w.BizTypes = append(w.BizTypes, l.Shapes[i].BizType)
	}
	l.Journal.Write(record.Entry{World: &w})
}

// startNodes starts the seqds and waits until all are ready.
func (l *laboratory) startNodes(ctx context.Context) error {
	for _, n := range l.world.seqds {
		n.told = func(life int, how string) {
			l.Journal.Lived(n.Name(), life, how)
			if how == record.Failed {
				l.Journal.Find("%s ended by itself, see %s", n.Name(), n.log)
			}
		}
		n.see = func(life int, line []byte) { l.Journal.Line(n.Name(), life, line) }
		if err := n.start(); err != nil {
			return err
		}
	}
	return l.awaitReady(ctx)
}

// awaitReady waits until all biz types of all nodes can issue.
func (l *laboratory) awaitReady(ctx context.Context) error {
	limit := patience + l.System.lag()
	client := &http.Client{}
	for _, n := range l.world.seqds {
		err := within(limit, func() error {
			if states, status, all := load.Readiness(ctx, client, n.URL()); !all && ctx.Err() == nil {
				return fmt.Errorf("%s is not ready after %v: %d %v", n.Name(), limit, status, states)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// experiment loads the system and breaks it.
func (l *laboratory) experiment(ctx context.Context) error {
	schedule := plan(l.System, l.Options.Seed, l.Duration, l.Only)
	fmt.Fprintf(l.Out, "%s; seed %d; the faults, in seconds after this:\n", l.System, l.Options.Seed)
	PrintPlan(l.Out, l.System, l.Options.Seed, l.Duration, l.Only)
	loading, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	l.loaded.Go(func() { l.Load.Run(loading, l.buffers) })
	if !slices.ContainsFunc(schedule, func(p planned) bool { return p.class.marks.StoreBack }) {
		l.loaded.Go(func() { l.makeLate(loading) })
	}
	ended := time.Now().Add(l.Duration)
	err := l.inflict(ctx, schedule)
	if err == nil {
		l.mindIdle(len(schedule))
		l.awaitRecovery(ctx)
		load.Rest(ctx, time.Until(ended))
	}
	stopLoad()
	l.loaded.Wait()
	if err == nil {
		l.AwaitJobs(ctx, patience)
		l.CloseBooks(ctx)
	}
	return errors.Join(err, ctx.Err())
}

// watch samples all nodes and servers until ctx ends.
func (l *laboratory) watch(ctx context.Context) {
	for _, n := range l.world.seqds {
		l.watching.Go(func() { l.Watch(ctx, n, sampleEvery) })
	}
	for _, s := range l.world.redises {
		l.watching.Go(func() { l.watchServer(ctx, s) })
	}
	l.watching.Go(func() { l.watchWall(ctx) })
}

// stopNodes ends all nodes, cleanly as far as they can.
func (l *laboratory) stopNodes() {
	var all sync.WaitGroup
	for _, n := range l.world.seqds {
		all.Go(func() { l.stop(n) })
	}
	all.Wait()
}

// stop asks a node to end. The node must end in time and without an error. An error is allowed if
// the store was away then or shortly before, because numbers that cannot be returned are an error.
func (l *laboratory) stop(n *seqd) {
	const shortly = 30 * time.Second
	since := l.Journal.Now() - int64(shortly)
	err := n.stop()
	if _, ended := errors.AsType[*exec.ExitError](err); err == nil || ended && l.storeAway(since) {
		return
	}
	l.Journal.Find("%v", err)
}

// storeAway reports whether the store was away at some time since then.
func (l *laboratory) storeAway(since int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away > 0 || l.backAt >= since
}

// awaitRecovery waits until all nodes are ready after the last fault.
func (l *laboratory) awaitRecovery(ctx context.Context) {
	began := time.Now()
	if err := l.awaitReady(ctx); err != nil && ctx.Err() == nil {
		l.Journal.Find("after the last fault: %v", err)
	}
	l.AwaitWorkers(ctx, patience)
	l.Journal.Say("all faults have ended; all nodes ready %v later", time.Since(began).Round(10*time.Millisecond))
}

// mindIdle requires that most faults of the schedule found something to break. Otherwise the run is
// not significant.
func (l *laboratory) mindIdle(planned int) {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if 2*idle > planned {
		l.Journal.Find("%d of %d faults found nothing to break", idle, planned)
	}
}
