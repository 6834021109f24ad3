// Package doctor examines a configuration and everything that it names (files, stores, Redis,
// hosts, clocks) and says what to change. It changes nothing itself.
//
// Each check is a type in a file of its own: configCheck, addressCheck, filesCheck, storeCheck,
// redisCheck, coordinationCheck, hostsCheck, restoreCheck, clocksCheck. [Doctor.Examine] runs them concurrently, each
// with a time limit. To add a check, write such a file and add a line to Examine.
//
// The package depends on the registry of stores, on the scripts of the cursor, and on the
// configuration. A driver examines its store itself. Of strategies and plugins it knows only the
// keys of their settings. [Host] is what it needs from the machine, so that tests can replace it.
package doctor

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/config"
)

// Level is how much a finding matters.
type Level = driver.Level

// The levels, ascending.
const (
	OK   = driver.OK
	Info = driver.Info
	Warn = driver.Warn
	Fail = driver.Fail
)

// Finding is one line of a report.
type Finding struct {
	Level Level `json:"level"`
	// Subject is a key of the configuration, or whatever else was examined.
	Subject string `json:"subject"`
	// Found is what was found.
	Found string `json:"found"`
	// Change is what to change, "" for nothing.
	Change string `json:"change,omitempty"`
}

// Section holds the findings of one check.
type Section struct {
	Name     string    `json:"name"`
	Findings []Finding `json:"findings"`
}

// findings collects the findings of a check. It is safe for concurrent use.
type findings struct {
	mu   sync.Mutex // guards list
	list []Finding
}

func (f *findings) add(level Level, subject, change, found string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, Finding{level, subject, fmt.Sprintf(found, args...), change})
}

func (f *findings) ok(subject, found string, args ...any) { f.add(OK, subject, "", found, args...) }

// all returns the findings up to now.
func (f *findings) all() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Finding(nil), f.list...)
}

// sort groups the findings by subject and otherwise keeps their order.
func (f *findings) sort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.list, func(a, b Finding) int { return strings.Compare(a.Subject, b.Subject) })
}

// Definition is a biz type of the store.
type Definition struct {
	BizType seqd.BizType
	// Err is why it cannot be used. Then only its name is known.
	Err error
	// Configured is whether the configuration defines it in the same way, and Differs whether in
	// another way.
	Configured, Differs bool
	// Deleted is whether the API deleted it.
	Deleted bool
}

// Doctor is one examination. Every field is needed, except Lacking.
type Doctor struct {
	Config *config.Config
	// Redis makes the client of a configuration, which connects to nothing until it is used.
	Redis func(config.Redis) (redis.UniversalClient, error)
	// Coordinator makes the client of a coordinator for the cluster with this ID, which connects to
	// nothing until it is used.
	Coordinator func(cfg config.Coordination, cluster string) (coordination.Coordinator, error)
	// Shape returns what the IDs of a biz type look like, in the form that the store records. known is
	// what it has recorded.
	Shape func(b seqd.BizType, known string) (string, error)
	// Definitions reads the biz types of a store.
	Definitions func(context.Context, persist.Store) ([]Definition, error)
	// Mixed returns why the nodes that use a store, or a node with this configuration beside them,
	// would have their definitions from different places; nil if they have not.
	Mixed func(context.Context, persist.Store) (*seqd.Error, error)
	// Elsewhere returns for what a store names another Redis than that of a client, which is nil
	// without Redis.
	Elsewhere func(context.Context, persist.Store, redis.UniversalClient) ([]Finding, error)
	// Lacking returns what a store lacks of the changes that a log has. It is nil if there is no
	// log.
	Lacking func(context.Context, persist.Store) ([]Finding, error)
	// CounterOf returns the name of the counter that a biz type uses at a time, without a key. ok is
	// false if its strategy has none.
	CounterOf func(b seqd.BizType, now time.Time) (counter string, ok bool)
	// Ask asks the node that runs with this configuration how it is, and returns a line about it.
	// The error is why it is not alive.
	Ask func(context.Context) (said string, err error)
	// Host is this machine.
	Host Host
	// Now is its clock.
	Now func() time.Time

	clocks clocks
}

// Host is what the checks ask of this machine.
type Host struct {
	// Listen opens an address and closes it again.
	Listen func(addr string) error
	// Addrs are the addresses of this machine.
	Addrs func() ([]netip.Addr, error)
	// OpenFiles is how many files a process may have open. known is false if the system does not
	// say.
	OpenFiles func() (most uint64, known bool)
	// Disk describes the file system that a path is on.
	Disk func(path string) (Disk, error)
	// Writable reports whether this user may make files in a folder.
	Writable func(folder string) bool
	// Synchronised is whether the kernel's clock follows another clock. known is false if the
	// system does not say.
	Synchronised func() (yes, known bool)
	// Connect opens a connection to where requests for a URL go, with TLS if the URL says so, and
	// closes it. proxy is the address of the proxy that they go through, "" for none.
	Connect func(ctx context.Context, u *url.URL) (proxy string, err error)
}

// check is a named part of the examination.
type check struct {
	name string
	run  func(context.Context, *findings)
}

// patience bounds each check, and so all of them, because they run at the same time.
const patience = 10 * time.Second

// Examine runs every check, even if others fail, and returns their findings in a fixed order. It
// takes at most about 11 s.
func (d *Doctor) Examine(ctx context.Context) []Section {
	sections := runAll(ctx, patience, []check{
		{"configuration", configCheck{d}.run}, {"address", addressCheck{d}.run}, {"permissions", filesCheck{d}.run},
		{"store", storeCheck{d}.run}, {"redis", redisCheck{d}.run}, {"coordination", coordinationCheck{d}.run}, {"hosts", hostsCheck{d}.run},
		{"restore", restoreCheck{d}.run},
	})
	// the others have collected the clocks that it compares
	return append(sections, runAll(ctx, time.Second, []check{{"clocks", clocksCheck{d}.run}})...)
}

// runAll runs checks at the same time. If a check runs out of time, its findings until then count.
func runAll(ctx context.Context, patience time.Duration, checks []check) []Section {
	sections := make([]Section, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() { sections[i] = Section{c.name, within(ctx, patience, c)} })
	}
	wg.Wait()
	return sections
}

// grace is how long a check may take to return after its context has ended.
const grace = 500 * time.Millisecond

// within runs a check. If it does not return soon after its time is over, within leaves it running.
func within(ctx context.Context, patience time.Duration, c check) []Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f := &findings{}
	done := make(chan struct{})
	go func() { defer close(done); guarded(ctx, c, f) }()
	select {
	case <-done:
	case <-time.After(patience + grace):
		f.add(Fail, c.name, "", "no end of it within %s", patience)
	}
	return f.all()
}

// guarded runs a check and recovers its panic: a damaged file can cause one.
func guarded(ctx context.Context, c check, f *findings) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			f.add(Fail, c.name, "", "looking at it failed: %v", p)
		}
	}()
	c.run(ctx, f)
}

// Failed returns whether a report contains a failure.
func Failed(sections []Section) bool {
	return slices.ContainsFunc(sections, func(s Section) bool {
		return slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Level == Fail })
	})
}

// Print writes a report.
func Print(w io.Writer, sections []Section) {
	var count [Fail + 1]int
	for _, s := range sections {
		if len(s.Findings) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\n", s.Name)
		for _, f := range s.Findings {
			count[f.Level]++
			fmt.Fprintf(w, "  %-4s  %s\n", f.Level, f.line())
		}
	}
	fmt.Fprintf(w, "%d FAIL, %d warn, %d info, %d ok; nothing was changed\n", count[Fail], count[Warn], count[Info], count[OK])
}

func (f Finding) line() string {
	if f.Change == "" {
		return f.Subject + ": " + f.Found
	}
	return f.Subject + ": " + f.Found + " → " + f.Change
}
