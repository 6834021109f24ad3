package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Options are the options of a check. Zero is the default of each.
type Options struct {
	// Shown is how many violations of each rule are shown; all are counted. The default is 20.
	Shown int
	// LogDelay is the longest delay until the laboratory reads a line of a running node's log. The
	// default is 500 ms.
	LogDelay time.Duration
	// OffsetDelay is how far the recorded time of a clock change may be off. The default is 50 ms.
	OffsetDelay time.Duration
	// ClockTolerance is how far a node's clock may differ from the record. The default is 5 ms.
	ClockTolerance time.Duration
	// Unfinished accepts a record without the end of its run.
	Unfinished bool
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Shown == 0 {
		o.Shown = 20
	}
	set(&o.LogDelay, 500*time.Millisecond)
	set(&o.OffsetDelay, 50*time.Millisecond)
	set(&o.ClockTolerance, 5*time.Millisecond)
	return o
}

// Rules, as reports name them.
const (
	RuleRecord        = "record"
	RuleForm          = "form"
	RuleCount         = "count"
	RuleDuplicate     = "duplicate"
	RuleOrderInCall   = "order in a call"
	RuleOrderProcess  = "order per process"
	RuleOrderNode     = "order per node"
	RuleOrderNodes    = "order over nodes"
	RuleOrderCursor   = "order of the cursor"
	RuleGuard         = "guard"
	RuleSnowflakeTime = "snowflake time"
	RuleMachine       = "machine ID"
	RuleWorker        = "worker ID"
	RuleTerm          = "term"
	RulePeriod        = "period"
	RuleIdempotency   = "idempotency"
	RuleSkipped       = "skipped numbers"
	RuleParse         = "parse"
	RuleBack          = "back on the cursor"
	RuleProcess       = "process"
	RuleRefusal       = "refusal"
	RuleAccount       = "account"
	RuleReservation   = "reservation"
	RuleUnknown       = "unknown numbers"
)

// Violation is a broken promise.
type Violation struct {
	Rule    string   `json:"rule"`
	BizType string   `json:"bizType,omitempty"`
	Text    string   `json:"text"`
	Calls   []string `json:"calls,omitempty"`
	// faults at that time, or that had ended less than ten seconds before
	Faults []string `json:"faults,omitempty"`
}

// Report is the result of a check.
type Report struct {
	Seed int64 `json:"seed"`
	// from the beginning of the run to the last entry
	Length   time.Duration `json:"length"`
	Calls    int           `json:"calls"`
	Answered int           `json:"answered"`
	// numbers that callers got; a repeated answer counts once
	Numbers    int64            `json:"numbers"`
	Duplicates int64            `json:"duplicates"`
	Faults     int              `json:"faults"`
	Classes    int              `json:"classes"` // of faults
	Counts     map[string]int64 `json:"counts"`  // of violations, by rule
	// ByBizType counts violations by biz type, for rules about one biz type.
	ByBizType  map[string]map[string]int64 `json:"byBizType,omitempty"`
	Violations []Violation                 `json:"violations,omitempty"`
	// calls for numbers that got none, by code
	Refusals map[string]int `json:"refusals,omitempty"`

	Ordered int `json:"ordered"` // answers of strict biz types
	// answers that were not compared with other nodes, because order was suspended
	Suspended int `json:"suspended"`
	// The same of biz types whose numbers the store orders. Faults suspend nothing for them.
	OrderedByStore   int `json:"orderedByStore"`
	SuspendedOfStore int `json:"suspendedOfStore"`
	// SuspendedBy counts them by reason; some have several. Cursor is how many of them were still
	// compared with each other, because their nodes were not on their own.
	SuspendedBy map[string]int `json:"suspendedBy,omitempty"`
	Cursor      int            `json:"cursor"`

	// CutShort means that the record lacks the end of its run. checkEnough is skipped then.
	CutShort bool `json:"cutShort,omitempty"`

	// keys that got other numbers because Redis had lost them
	Changed    int              `json:"changed"`
	ParseAsked int              `json:"parseAsked"` // IDs that were parsed
	Skipped    []Skipped        `json:"skipped,omitempty"`
	Ledgers    []Ledger         `json:"ledgers,omitempty"`
	ByClass    []Availability   `json:"availability,omitempty"`
	Issued     map[string]int64 `json:"issued,omitempty"` // numbers by biz type
	// ByProtocol counts answers and numbers by protocol.
	ByProtocol map[string]Served `json:"byProtocol,omitempty"`
	// WorkerUses is how often programs made IDs with worker IDs that they had leased.
	WorkerUses int `json:"workerUses,omitempty"`
}

// Skipped is how many numbers of a counter were not issued.
type Skipped struct {
	BizType string `json:"bizType"`
	Period  string `json:"period,omitempty"`
	Issued  int64  `json:"issued"`
	Skipped int64  `json:"skipped"`
	Bound   int64  `json:"bound"`
}

// Ledger is what became of the numbers of a gapless counter, as its last account says.
type Ledger struct {
	Counter string `json:"counter"`
	Last    int64  `json:"last"`
	// Told is how many of the issued numbers a caller was told, and Unknown how many others there
	// are: those of calls that got no answer. They asked for Bound.
	Told                     int64 `json:"told"`
	Unknown                  int64 `json:"unknown"`
	Bound                    int64 `json:"bound"`
	Reserved, Released, Void int64
	// Reservations are those that callers were told, of which Confirmed and Ended are known to be
	// confirmed, and released or expired.
	Reservations, Confirmed, Ended int
	Accounts                       int `json:"accounts"` // pages that were read
}

// Served is how many answers callers of a protocol got, and how many numbers.
type Served struct{ Answers, Numbers int64 }

// Total returns the number of violations.
func (r *Report) Total() (n int64) {
	for _, count := range r.Counts {
		n += count
	}
	return n
}

// OfNumbers returns the number of violations of promises about numbers. A crash, a rejection, a
// node that stays on its own or an insufficient record does not count.
func (r *Report) OfNumbers() int64 {
	return r.Total() - r.Counts[RuleRecord] - r.Counts[RuleProcess] - r.Counts[RuleRefusal] - r.Counts[RuleBack]
}

// Line returns the totals in one line.
func (r *Report) Line() string {
	return fmt.Sprintf("chaos: seed %d, %s, %d numbers, %d calls, %d faults of %d classes, %d duplicates, %d violations",
		r.Seed, r.Length.Round(100*time.Millisecond), r.Numbers, r.Calls, r.Faults, r.Classes, r.Duplicates, r.Total())
}

// String returns the whole report as text; the last line has the totals.
func (r *Report) String() string {
	var b strings.Builder
	r.showAvailability(&b)
	r.showRefusals(&b)
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "skipped: %s: %d of %d numbers, at most %d\n", strings.TrimSuffix(s.BizType+"@"+s.Period, "@"), s.Skipped, s.Skipped+s.Issued, s.Bound)
	}
	for _, l := range r.Ledgers {
		fmt.Fprintf(&b, "account of %s: to %d: %d told as issued, %d unknown of at most %d, %d reserved, %d released, %d void; %d reservations, %d confirmed, %d ended; %d pages\n",
			l.Counter, l.Last, l.Told, l.Unknown, l.Bound, l.Reserved, l.Released, l.Void, l.Reservations, l.Confirmed, l.Ended, l.Accounts)
	}
	for _, name := range slices.Sorted(maps.Keys(r.ByProtocol)) {
		fmt.Fprintf(&b, "by %s: %d numbers in %d answers\n", cmp.Or(name, "http"), r.ByProtocol[name].Numbers, r.ByProtocol[name].Answers)
	}
	fmt.Fprintf(&b, "worker IDs: programs used theirs %d times\n", r.WorkerUses)
	fmt.Fprintf(&b, "order over nodes: suspended for %d of %d answers of strict biz types", r.Suspended, r.Ordered)
	for _, reason := range []string{onTheirOwn, goneOnTheirOwn, twoPrimaries, twoServers, otherOrdering} {
		fmt.Fprintf(&b, ", %d because of %s", r.SuspendedBy[reason], reason)
	}
	fmt.Fprintf(&b, "; %d of them were still compared with each other\n", r.Cursor)
	fmt.Fprintf(&b, "order by the store: suspended for %d of %d answers\n", r.SuspendedOfStore, r.OrderedByStore)
	if r.CutShort {
		fmt.Fprintln(&b, "the record is incomplete: the run was cut short and may not be significant")
	}
	fmt.Fprintf(&b, "idempotency: %d keys got other numbers after Redis had lost theirs\n", r.Changed)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION %s: %s: %s\n", v.Rule, v.BizType, v.Text)
		for _, c := range v.Calls {
			fmt.Fprintf(&b, "    %s\n", c)
		}
		if len(v.Faults) > 0 {
			fmt.Fprintf(&b, "    faults: %s\n", strings.Join(v.Faults, "; "))
		}
	}
	rules := make([]string, 0, len(r.Counts))
	for rule := range r.Counts {
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	for _, rule := range rules {
		fmt.Fprintf(&b, "violations of %s: %d%s\n", rule, r.Counts[rule], r.bizTypesOf(rule))
	}
	b.WriteString(r.Line() + "\n")
	return b.String()
}

// bizTypesOf returns the biz types for which a rule was broken.
func (r *Report) bizTypesOf(rule string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.ByBizType[rule])) {
		list = append(list, fmt.Sprintf("%s %d", name, r.ByBizType[rule][name]))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func (r *Report) showRefusals(b *strings.Builder) {
	codes := make([]string, 0, len(r.Refusals))
	for code := range r.Refusals {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		fmt.Fprintf(b, "no numbers: %s: %d calls\n", code, r.Refusals[code])
	}
}

// fail counts a violation, and keeps it in the report if there are few of its rule.
func (h *evidence) fail(r *Report, rule, bizType string, count int64, at int64, text string, calls ...*call) {
	shown := int64(0)
	for _, v := range r.Violations {
		if v.Rule == rule {
			shown++
		}
	}
	r.Counts[rule] += count
	if bizType != "" {
		if r.ByBizType[rule] == nil {
			r.ByBizType[rule] = make(map[string]int64)
		}
		r.ByBizType[rule][bizType] += count
	}
	if shown >= int64(h.options.Shown) {
		return
	}
	v := Violation{Rule: rule, BizType: bizType, Text: text, Faults: h.faultsAt(at)}
	for _, c := range calls {
		v.Calls = append(v.Calls, c.String())
	}
	r.Violations = append(r.Violations, v)
}

// faultsAt returns the faults at a time or just before.
func (h *evidence) faultsAt(at int64) (names []string) {
	const recent = int64(10 * time.Second)
	for _, f := range h.faults {
		if f.Begin <= at && at <= f.End+recent {
			names = append(names, fmt.Sprintf("%s of %s [%s, %s]", f.Class, f.Target, seconds(f.Begin), seconds(f.End)))
		}
	}
	return names
}

// File checks a record.
func File(path string, opts Options) (*Report, error) {
	h, err := load(path, opts)
	if err != nil {
		return nil, err
	}
	return h.check(), nil
}

// Entries checks the entries of a record.
func Entries(all []record.Entry, opts Options) (*Report, error) {
	h := newEvidence(opts)
	for i := range all {
		if err := h.add(&all[i]); err != nil {
			return nil, err
		}
	}
	if err := h.finish(); err != nil {
		return nil, err
	}
	return h.check(), nil
}

// check applies every rule.
func (h *evidence) check() *Report {
	r := &Report{Seed: h.world.Seed, Length: time.Duration(h.end), Calls: len(h.calls) + len(h.parses) + len(h.admins) + len(h.bookings), Faults: len(h.faults), ParseAsked: len(h.parses), CutShort: h.torn || !h.done,
		Counts: make(map[string]int64), Refusals: make(map[string]int), Issued: make(map[string]int64), SuspendedBy: make(map[string]int), ByBizType: make(map[string]map[string]int64), ByProtocol: make(map[string]Served)}
	h.totals(r)
	h.checkRecord(r)
	h.checkFindings(r)
	h.checkRefusals(r)
	h.checkForms(r)
	issues := h.issues(r)
	h.checkDuplicates(r, issues)
	h.checkOrder(r, issues)
	h.checkBack(r)
	h.checkGuard(r)
	h.checkSnowflake(r, issues)
	h.checkWorkers(r)
	h.checkDuties(r)
	h.checkPeriods(r, issues)
	h.checkSkipped(r, issues)
	h.checkLedgers(r, issues)
	h.checkParse(r, issues)
	h.availability(r)
	h.checkEnough(r)
	return r
}

func (h *evidence) totals(r *Report) {
	classes := make(map[string]bool)
	for _, f := range h.faults {
		classes[f.Class] = true
	}
	r.Classes = len(classes)
	for i := range h.calls {
		c := &h.calls[i]
		if c.answered() {
			r.Answered++
			of := r.ByProtocol[c.proto]
			of.Answers++
			of.Numbers += max(record.Runs(c.runs).Numbers(), int64(len(c.texts)))
			r.ByProtocol[c.proto] = of
			continue
		}
		code := c.code
		if c.status == 0 {
			code = "no answer: " + code
		}
		r.Refusals[code]++
	}
}
