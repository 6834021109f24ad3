package check

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seqd/seqd/internal/testing/record"
)

// origin is the part that many calls share.
type origin struct {
	node    string
	life    int
	bizType *bizType
	kind    string
	proto   string // protocol
	code    string
	status  int
	period  string
	of      string // the key of a keyed biz type
	caller  string // empty for the usual one
}

// call is a [record.Call] without its texts, which the rules do not need.
type call struct {
	*origin    // read-only, because it is shared
	start, end int64
	asked      int
	key        string // only in idempotent calls
	runs       []record.Run
	texts      []uint64 // hashes of display forms that hide their numbers
	replayed   bool
	malformed  bool // some display forms are malformed
}

// answered reports whether a call got what it asked for.
func (c *call) answered() bool { return c.status >= 200 && c.status < 300 }

// String formats a call for a violation.
func (c *call) String() string {
	what := fmt.Sprintf("%s of %d", c.kind, c.asked)
	if c.proto != "" {
		what = c.proto + " " + what
	}
	if c.key != "" {
		what += " with key " + c.key
	}
	came := fmt.Sprintf("status %d %s", c.status, c.code)
	if c.answered() {
		came = show(c.runs)
		if len(c.texts) > 0 {
			came = fmt.Sprintf("%d IDs", len(c.texts))
		}
	}
	if c.replayed {
		came += ", replayed"
	}
	if c.period != "" {
		came += " of " + c.period
	}
	if c.of != "" {
		what += " for " + c.of
	}
	return fmt.Sprintf("[%s, %s] %s.%d %s: %s", seconds(c.start), seconds(c.end), c.node, c.life, what, came)
}

// show formats runs of numbers, shortened.
func show(runs []record.Run) string {
	switch {
	case len(runs) == 0:
		return "no numbers"
	case len(runs) == 1 && runs[0].Count == 1:
		return strconv.FormatInt(runs[0].First, 10)
	}
	return fmt.Sprintf("%d numbers %d … %d", record.Runs(runs).Numbers(), runs[0].First, runs[len(runs)-1].Last())
}

// seconds formats a time.
func seconds(ns int64) string { return strconv.FormatFloat(float64(ns)/1e9, 'f', 6, 64) }

// bizType is a [record.BizType] prepared for the rules.
type bizType struct {
	record.BizType
	display *regexp.Regexp // nil if numbers are shown in decimal
	number  int            // group of display, -1 for none
	period  int            // likewise
	zone    zone
}

// opaque reports whether display forms hide the number.
func (b *bizType) opaque() bool { return b.display != nil && b.number < 0 }

func newBizType(b record.BizType) (*bizType, error) {
	made := &bizType{BizType: b, number: -1, period: -1}
	var err error
	if made.zone, err = loadZone(b.TimeZone); err != nil {
		return nil, err
	}
	if b.Display != "" {
		if made.display, err = regexp.Compile("^(?:" + b.Display + ")$"); err != nil {
			return nil, err
		}
		made.number, made.period = made.display.SubexpIndex("number"), made.display.SubexpIndex("period")
	}
	switch {
	case b.Strategy == record.Gapless && b.OnRelease != record.Reuse && b.OnRelease != record.Void:
		return nil, fmt.Errorf("biz type %s: onRelease %q", b.Name, b.OnRelease)
	case b.Strategy == record.Gapless:
	case b.Strategy != record.Segment && b.Strategy != record.Snowflake:
		return nil, fmt.Errorf("biz type %s: strategy %q", b.Name, b.Strategy)
	case b.Strategy == record.Snowflake && (b.BitsMachine < 1 || b.BitsSequence < 1 || b.Group == ""):
		return nil, fmt.Errorf("biz type %s: no layout or group", b.Name)
	case b.Strategy == record.Segment && b.Ordering != record.Strict && b.Ordering != record.PerNode:
		return nil, fmt.Errorf("biz type %s: ordering %q", b.Name, b.Ordering)
	}
	return made, nil
}

// parsed is a call that parsed an ID.
type parsed struct {
	call
	id     string
	runs   record.Runs
	answer *record.Parsed
}

// evidence has everything in a record that the rules need.
type evidence struct {
	options  Options
	world    record.World
	bizTypes map[string]*bizType
	calls    []call  // by start
	halves   []issue // answers without a key that were cut off
	parses   []parsed
	admins   []admin
	bookings []booking        // by start
	accounts []record.Account // by start
	lives    []record.Life
	faults   []record.Fault
	samples  []record.Sample
	servers  []record.Server
	lines    []record.Line
	offsets  map[string][]record.Offset
	uses     []record.Use
	duties   []record.Duty
	findings []record.Finding
	torn     bool
	done     bool
	end      int64 // the latest time in the record
	badForms []badForm
	badCount int

	names   map[string]string
	origins map[origin]*origin
	seed    maphash.Seed
}

// admin is a change of a biz type.
type admin struct {
	call
	what string
}

// badForm is a malformed display form.
type badForm struct {
	call    int
	bizType string
	why     string
}

// mostBadForms is the largest number of malformed forms that are kept.
const mostBadForms = 100

func newEvidence(opts Options) *evidence {
	return &evidence{
		options: opts.withDefaults(), bizTypes: make(map[string]*bizType), offsets: make(map[string][]record.Offset), names: make(map[string]string), origins: make(map[origin]*origin), seed: maphash.MakeSeed(),
	}
}

// load reads a record.
func load(path string, opts Options) (*evidence, error) {
	h := newEvidence(opts)
	torn, err := record.Read(path, h.add)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	h.torn = torn
	return h, h.finish()
}

// add adds one entry.
func (h *evidence) add(e *record.Entry) error {
	switch {
	case e.World != nil:
		return h.begin(e.World)
	case h.world.BizTypes == nil:
		return errors.New("a record must begin with its world")
	case e.Call != nil:
		return h.addCall(e.Call)
	case e.Life != nil:
		h.lives = upsert(h.lives, *e.Life, func(l record.Life) bool { return l.Node == e.Life.Node && l.Life == e.Life.Life })
		h.see(e.Life.Begin, e.Life.End)
	case e.Fault != nil:
		h.faults = upsert(h.faults, *e.Fault, func(f record.Fault) bool { return f.ID == e.Fault.ID })
		h.see(e.Fault.Begin, e.Fault.End)
	case e.Sample != nil:
		h.samples = append(h.samples, *e.Sample)
		h.see(e.Sample.At)
	case e.Server != nil:
		h.servers = append(h.servers, *e.Server)
	case e.Line != nil:
		h.lines = append(h.lines, *e.Line)
	case e.Offset != nil:
		h.offsets[e.Offset.Node] = append(h.offsets[e.Offset.Node], *e.Offset)
	case e.Account != nil:
		return h.addAccount(e.Account)
	case e.Use != nil:
		h.uses = append(h.uses, *e.Use)
		h.see(e.Use.At)
	case e.Duty != nil:
		h.duties = append(h.duties, *e.Duty)
		h.see(e.Duty.Until)
	case e.Finding != nil:
		h.findings = append(h.findings, *e.Finding)
		h.see(e.Finding.At)
	case e.Done != nil:
		h.done = true
		h.see(e.Done.At)
	}
	return nil
}

// upsert replaces the equal element, or adds a new one.
func upsert[T any](all []T, one T, same func(T) bool) []T {
	if i := slices.IndexFunc(all, same); i >= 0 {
		all[i] = one
		return all
	}
	return append(all, one)
}

func (h *evidence) see(times ...int64) {
	for _, t := range times {
		h.end = max(h.end, t)
	}
}

func (h *evidence) begin(w *record.World) error {
	if h.world.BizTypes != nil {
		return errors.New("two worlds in one record")
	}
	if len(w.BizTypes) == 0 {
		return errors.New("a world without biz types")
	}
	h.world = *w
	for _, b := range w.BizTypes {
		made, err := newBizType(b)
		if err != nil {
			return err
		}
		if h.bizTypes[b.Name] != nil {
			return fmt.Errorf("biz type %s twice", b.Name)
		}
		h.bizTypes[b.Name] = made
	}
	return nil
}

// from returns the shared copy of an origin.
func (h *evidence) from(o origin) *origin {
	if known, ok := h.origins[o]; ok {
		return known
	}
	h.origins[o] = &o
	return &o
}

// one returns the shared copy of a text.
func (h *evidence) one(text string) string {
	if known, ok := h.names[text]; ok {
		return known
	}
	h.names[text] = text
	return text
}

func (h *evidence) addCall(r *record.Call) error {
	b := h.bizTypes[r.BizType]
	if b == nil {
		return fmt.Errorf("a call of %q, which the world does not have", r.BizType)
	}
	if r.End < r.Start {
		return fmt.Errorf("a call that ends before it starts: %+v", *r)
	}
	h.see(r.End)
	from := origin{node: h.one(r.Node), life: r.Life, bizType: b, kind: h.one(r.Kind), proto: h.one(r.Protocol), code: h.one(r.Code), status: r.Status,
		of: h.one(r.Of), caller: h.one(r.Caller)}
	c := call{origin: h.from(from), start: r.Start, end: r.End, asked: r.Asked, replayed: r.Replayed}
	switch r.Kind {
	case record.Admin:
		h.admins = append(h.admins, admin{c, r.Key})
		return nil
	case record.Parse:
		p := parsed{call: c, runs: r.Runs, answer: r.Parsed}
		if len(r.Texts) != 1 {
			return fmt.Errorf("a parse of %d IDs", len(r.Texts))
		}
		p.id = r.Texts[0]
		h.parses = append(h.parses, p)
		return nil
	case record.Reserve, record.Confirm, record.Release, record.Find, record.VoidOne:
		return h.addBooking(r, c)
	case record.Idempotent:
		c.key = h.one(r.Key)
	}
	if c.answered() {
		c.runs = r.Runs
		if b.display != nil {
			h.read(&c, r.Texts)
		}
	}
	h.calls = append(h.calls, c)
	if r.Kind == record.Batch && r.Status == 0 && len(r.Runs) > 0 {
		h.addHalf(c, r.Runs)
	}
	return nil
}

// addHalf adds the numbers of an answer that was cut off. No other caller may get them; nothing
// more is promised about them.
func (h *evidence) addHalf(c call, runs record.Runs) {
	c.runs = runs
	i := issue{call: &c, start: c.start, end: c.end, alone: true, firstEnding: &c}
	i.span()
	h.halves = append(h.halves, i)
}

// read reads numbers and period from the display forms of an answer.
func (h *evidence) read(c *call, texts []string) {
	var runs record.Runs
	from := *c.origin
	for i, text := range texts {
		m := c.bizType.display.FindStringSubmatchIndex(text)
		if m == nil {
			h.bad(c, fmt.Sprintf("%q does not look like an ID of %s", text, c.bizType.Name))
			continue
		}
		if c.bizType.opaque() {
			c.texts = append(c.texts, maphash.String(h.seed, text))
			continue
		}
		period, number, err := c.bizType.take(text, m)
		if err != nil {
			h.bad(c, err.Error())
			continue
		}
		if period = h.one(period); i > 0 && period != from.period {
			h.bad(c, fmt.Sprintf("%q and the IDs before it in one answer are of two periods", text))
			continue
		}
		from.period = period
		runs = runs.AppendNumber(number)
	}
	c.origin, c.runs = h.from(from), runs
}

// take returns the groups of a match.
func (b *bizType) take(text string, m []int) (period string, number int64, err error) {
	if b.period >= 0 && m[2*b.period] >= 0 {
		period = digits(text[m[2*b.period]:m[2*b.period+1]])
	}
	if b.number >= 0 {
		number, err = strconv.ParseInt(text[m[2*b.number]:m[2*b.number+1]], 10, 64)
	}
	return period, number, err
}

// digits returns the digits of a text.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
}

// bad records a malformed display form of a call that is about to be added.
func (h *evidence) bad(c *call, why string) {
	c.malformed = true
	if h.badCount++; len(h.badForms) < mostBadForms {
		h.badForms = append(h.badForms, badForm{len(h.calls), c.bizType.Name, why})
	}
}

// finish sorts what was read.
func (h *evidence) finish() error {
	if h.world.BizTypes == nil {
		return errors.New("the record is empty")
	}
	for i := range h.badForms {
		h.badForms[i].why = fmt.Sprintf("%s: %s", h.badForms[i].why, &h.calls[h.badForms[i].call])
	}
	slices.SortStableFunc(h.calls, func(a, b call) int { return cmp.Compare(a.start, b.start) })
	slices.SortStableFunc(h.bookings, func(a, b booking) int { return cmp.Compare(a.start, b.start) })
	slices.SortStableFunc(h.accounts, func(a, b record.Account) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortStableFunc(h.servers, func(a, b record.Server) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.lines, func(a, b record.Line) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.samples, func(a, b record.Sample) int { return cmp.Compare(a.At, b.At) })
	if h.world.OwnStore {
		h.offsets[storeClock] = h.offsets[h.world.Nodes[0]]
	}
	for node := range h.offsets {
		slices.SortStableFunc(h.offsets[node], func(a, b record.Offset) int { return cmp.Compare(a.At, b.At) })
	}
	for i := range h.faults {
		if h.faults[i].End == 0 {
			h.faults[i].End = h.end
		}
	}
	return nil
}
