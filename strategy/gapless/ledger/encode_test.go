package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// What is damaged is not used, in whatever way.
func TestDamaged(t *testing.T) {
	const good = `{"v":1,"b":"x","g":2,"h":[2,3],"f":1,"l":20,"n":1,"r":[{"i":"01","m":1,"n":[1,2,4,4]},{"i":"02","n":[5,5]}],` +
		`"q":[6,7,1,9,9,1],"o":[{"k":"v","x":1,"n":[10,10]}]}`
	for _, test := range []struct{ old, new string }{
		{"", ""}, // nothing is damaged, nor here
		{good, `{"v":1,"b":"x","f":1}`},
		{good, `{"v":1,"f":9007199254740991,"l":9007199254740991,"n":1}`},
		{`{"v"`, `"v"`},
		{`"v":1`, `"v":0`},
		{`"v":1`, `"v":99`},
		{`[2,3]`, `[2,3,4]`},
		{`"f":1,"l":20`, `"f":0,"l":20`},
		{`"f":1,"l":20`, `"f":1,"l":8`},
		{`"f":1,"l":20`, `"f":2,"l":20`},
		{`"f":1,"l":20`, `"f":22,"l":20`},
		{`"l":20`, `"l":9007199254740992`},
		{`"n":1,"r"`, `"n":-1,"r"`},
		{`"n":1,"r"`, `"n":14,"r"`},
		{`[1,2,4,4]`, `[1,2,4]`},
		{`[1,2,4,4]`, `[]`},
		{`[1,2,4,4]`, `[1,4,4,4]`},
		{`[1,2,4,4]`, `[2,1,4,4]`},
		{`[1,2,4,4]`, `[1,5]`},
		{`[1,2,4,4]`, `[1,2,4,6]`},
		{`"i":"02"`, `"i":"01"`},
		{`"i":"02"`, `"i":"00"`},
		{`[6,7,1,9,9,1]`, `[6,7,1,9,9]`},
		{`[6,7,1,9,9,1]`, `[9,9,1,6,7,1]`},
		{`[6,7,1,9,9,1]`, `[6,7,1,7,9,1]`},
		{`[6,7,1,9,9,1]`, `[7,6,1,9,9,1]`},
		{`"k":"v"`, `"k":""`},
		{`"k":"v"`, `"k":"vv"`},
		{`"k":"v"`, `"k":"e","z":"xx"`},
		{`[10,10]`, `[10]`},
		{`"f":1`, `"d":"x","f":1`},
	} {
		d := persist.Document{Kind: persist.LedgerKind, Key: counter, Revision: 3, Body: strings.Replace(good, test.old, test.new, 1)}
		s, err := Decode(&d)
		want := persist.ErrInvalid
		switch {
		case test.old == "", test.old == good:
			want = nil
		case test.new == `"v":99`:
			want = persist.ErrNewer
		}
		if !errors.Is(err, want) || (s == nil) != (want != nil) {
			t.Errorf("%s: %v, want %v", d.Body, err, want)
		}
		m := New(Config{Counter: counter, Writer: "w"}, plain)
		m.Submit(&Request{Op: Op{Kind: Find, ID: id(9)}})
		list, _ := m.Next(time.Time{}, 1)
		read := list[0]
		if m.Done(time.Time{}, 1, &read, Outcome{Doc: d}); (m.Refusal() == nil) != (want == nil) {
			t.Errorf("%s: requests get %v", d.Body, m.Refusal())
		}
	}
	must.Is(t, must.Err(Decode(&persist.Document{Revision: 0, Body: good})), persist.ErrInvalid, "without a revision")
}

// Nor is a record, whoever reads it.
func TestDamagedRecord(t *testing.T) {
	for _, body := range []string{"", "{", `{"k":"v"}`, `{"k":"v","n":[1]}`, `{"k":"v","n":[1,2,2,3]}`, `{"k":"","n":[1,1]}`, `{"k":"e","z":"xx","n":[1,1]}`, `{"k":"v","n":[1,1],"m":"x"}`} {
		record := persist.Document{Kind: persist.VoidKind, Key: VoidKey(counter, 1), Body: body}
		if e, err := DecodeEntry(&record); !errors.Is(err, persist.ErrInvalid) || e != nil {
			t.Errorf("a record of %q: %+v, %v", body, e, err)
		}
		must.Is(t, must.Err(VoidsOf([]persist.Document{record})), persist.ErrInvalid, "void numbers of %q", body)
		s := Fresh(&plain, "b", "")
		must.Is(t, must.Err(s.AllVoids([]persist.Document{record})), persist.ErrInvalid, "all void numbers with %q", body)
		must.Is(t, must.Err(s.own([]persist.Document{record}, 0)), persist.ErrInvalid, "whose is %q", body)
		w := newWorld(1, 0)
		w.docs[record.PersistID()] = record
		if _, _, err := s.ListVoids(t.Context(), w, counter, 0, 9); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("a list with %q: %v", body, err)
		}
		must.Is(t, must.Err(s.lookedVoids(&Looked{Docs: []persist.Document{record}})), persist.ErrInvalid, "a look-up that finds %q", body)
	}
}

// A reservation whose end is not known is not open.
func TestEndedUnknownHow(t *testing.T) {
	s := &State{Revision: 5}
	must.Code(t, s.stillSo(1, &plain, &Entry{Rev: 3, ID: "x", Once: "k"}, nil), seqd.CodeUnknownReservation)
	s.Dropped = 3 // what happened since is in the records
	must.Is(t, s.stillSo(1, &plain, &Entry{Rev: 3, ID: "x", Once: "k"}, nil), s.unlooked(), "without a look")
	// Whether a number is void is not known if the records were read too early.
	e := &Entry{Rev: 3, Once: "k", Runs: []Run{{1, 1}}}
	s = &State{Revision: 5, Dropped: 4, Voids: 1}
	for since, want := range map[int64]error{3: ErrLook, 4: nil} {
		must.Is(t, s.stillSo(1, &plain, e, &Looked{Since: Since{Revision: since}, Answer: e}), want, "read at revision %d", since)
	}
	s = &State{Reserved: []*Reservation{{ID: "x", Runs: []Run{{1, 2}}, Made: 1, TTL: 5}}}
	for now, err := range map[int64]error{5: nil, 6: errExpired} {
		must.Is(t, s.stillSo(now, &plain, &Entry{ID: "x", Runs: []Run{{1, 2}}}, nil), err, "open at %d", now)
	}
	must.Is(t, s.stillSo(5, &plain, &Entry{ID: "x", Runs: []Run{{1, 3}}}, nil), errVoid)
	var res Result
	if err := s.settleEnded(&Op{Kind: Find}, &Entry{Made: 10, TTL: 5, End: Confirmed}, &res); err != nil || res.Due != 15 || res.End != Confirmed {
		t.Errorf("%+v, %v", res, err)
	}
}

// Check finds what does not add up.
func TestCheck(t *testing.T) {
	s := Fresh(&plain, "b", "")
	apply := func(op Op) {
		t.Helper()
		must.Get(s.Apply(1, &plain, &op, &Looked{}))(t)
	}
	apply(Op{Kind: Issue, Count: 4})
	apply(Op{Kind: Reserve, Count: 2, ID: id(1)})
	apply(Op{Kind: Reserve, Count: 1, ID: id(2)})
	apply(Op{Kind: Release, ID: id(1)})
	apply(Op{Kind: Void, Number: 2, Reason: "spoilt"})
	must.Report(t, s.Check([]Run{{2, 2}}))
	back := Op{Kind: Return, Runs: []Run{{2, 2}}}
	if res, err := s.Apply(1, &plain, &back, &Looked{}); err != nil || res.Changed {
		t.Errorf("a void number comes back: %+v, %v", res, err)
	}
	for _, run := range []Run{{0, 1}, {4, 5}, {6, 6}, {7, 7}, {8, 8}, {4, 3}} { // released, reserved, or none at all
		before := string(s.append(nil))
		back.Runs = []Run{run}
		if _, err := s.Apply(1, &plain, &back, &Looked{}); err == nil || string(s.append(nil)) != before {
			t.Errorf("%v comes back: %v", run, err)
		}
	}
	for _, voids := range [][]Run{nil, {{2, 3}}, {{5, 5}}, {{7, 7}}, {{8, 8}}, {{0, 0}}} {
		if s.Check(voids) == nil {
			t.Errorf("void numbers %v pass", voids)
		}
	}
	for name, change := range map[string]func(*State){
		"reserved": func(s *State) { s.reserved++ },
		"released": func(s *State) { s.released-- },
		"voids":    func(s *State) { s.Voids++ },
		"last":     func(s *State) { s.Last = 6 },
		"first":    func(s *State) { s.First = 3 },
	} {
		c := *s
		if change(&c); c.Check([]Run{{2, 2}}) == nil {
			t.Errorf("%s: a wrong state passes", name)
		}
	}
	if err := s.Check([]Run{{2, 2}}); err != nil || s.HasAnswers() {
		t.Errorf("a copy shares what changes: %v, or nobody's answer is kept: %t", err, s.HasAnswers())
	}
	if gaps, _ := s.Account(&plain, 5, 9, nil, false); len(gaps) != 2 || gaps[0].Run != (Run{6, 6}) || s.NumReleased() != 2 {
		t.Errorf("above 5 there are %+v", gaps)
	}
	apply(Op{Kind: Void, Number: 6, Reason: "spoilt"}) // it was released
	must.Report(t, s.Check([]Run{{2, 2}, {6, 6}}))
}

// What is read is what was written, also in what is counted beside it.
func TestRoundTrip(t *testing.T) {
	s := Fresh(&plain, "b", "f1")
	for _, op := range []Op{
		{Kind: Issue, Count: 9, Once: "k1"},
		{Kind: Reserve, Count: 2, ID: id(1), Caller: "caf\u00e9 \"1\"\\\x01"}, {Kind: Reserve, Count: 3, ID: id(2), Once: "k2", TTL: 5000},
		{Kind: Reserve, Count: 1, ID: id(3)}, {Kind: Raise, To: 20, Reason: "failover", Fence: "f2"}, {Kind: Void, Number: 4, Reason: "spoilt \u00e9"},
		{Kind: Reserve, Count: 4, ID: id(4)}, {Kind: Release, ID: id(4)}, {Kind: Confirm, ID: id(1), Admin: true},
		{Kind: Issue, Count: 1, Once: "k3", Recall: true, Close: true},
	} {
		_, _ = s.Apply(1000, &plain, &op, &Looked{Since: Since{s.Era, s.Revision}})
	}
	s.Drop(func(int64) bool { return false })
	s.wrote("w1", 3)
	s.Void, s.Ends = true, 1<<50
	d := must.Get(s.Document(counter, 1000))(t)
	got, err := Decode(&d)
	must.Do(t, err)
	s.Revision = 1
	if !reflect.DeepEqual(got, s) {
		t.Errorf("%+v\nis read as\n%+v", s, got)
	}
	void := Entry{Kind: VoidEntry, Rev: 1, Runs: []Run{{1, 1}, {3, 4}}}
	for i, d := range void.Records(counter) {
		if e, err := DecodeEntry(&d); err != nil || !reflect.DeepEqual(e.Runs, void.Runs[i:i+1]) || d.Key != VoidKey(counter, e.Runs[0].To) {
			t.Errorf("a record of %v: %+v, %v", void.Runs[i], d, err)
		}
	}
	if len(d.Body) > got.Size() {
		t.Errorf("%d bytes are more than %d", len(d.Body), got.Size())
	}
	got.Drop(func(int64) bool { return true })
	d, err = got.Document(counter, 1000)
	if again, damage := Decode(&d); err != nil || damage != nil || again.size != got.size {
		t.Errorf("%v, %v: without an outbox it takes %d bytes, not %d", err, damage, got.size, again.size)
	}
}

// The document may become as large as its bound, and no larger.
func TestRoom(t *testing.T) {
	s := Fresh(&plain, "b", "")
	needs := s.Size() + partSize + 2*(2*runSize+releasedSize)
	if !s.hasRoom(needs, nil, 1) || s.hasRoom(needs-1, nil, 1) {
		t.Errorf("%d bytes are not exactly enough", needs)
	}
	op := &Op{Once: "1234", Caller: "12", Reason: "123"}
	needs += 2*partSize + 4 + 12*(2+3)
	if !s.hasRoom(needs, op, 1) || s.hasRoom(needs-1, op, 1) {
		t.Errorf("%d bytes are not exactly enough for an operation", needs)
	}
	s.Born += strings.Repeat("x", 1<<20-len(s.append(nil)))
	must.Report(t, must.Err(s.Document(counter, 1)))
	s.Born += "x"
	must.Is(t, must.Err(s.Document(counter, 1)), persist.ErrInvalid, "a document of more than 1 MiB")
}

// A document that is full takes nothing more. What ends reservations has room for longer than what
// begins them.
func TestFull(t *testing.T) {
	ended := func(s *State, op Op) (Result, error) { return s.Apply(700_000, &plain, &op, &Looked{}) }
	for name, test := range map[string]struct {
		size int
		op   Op
		fits bool
	}{
		"issue":              {roomToEnd, Op{Kind: Issue, Count: 1}, true},
		"issue once":         {roomToBegin, Op{Kind: Issue, Count: 1, Once: "k"}, false},
		"reserve":            {roomToBegin, Op{Kind: Reserve, Count: 1, ID: id(9)}, false},
		"confirm":            {roomToBegin, Op{Kind: Confirm, ID: id(2)}, true},
		"confirm, full":      {roomToEnd, Op{Kind: Confirm, ID: id(2)}, false},
		"release":            {roomToBegin, Op{Kind: Release, ID: id(2)}, true},
		"release, full":      {roomToEnd, Op{Kind: Release, ID: id(2)}, false},
		"void":               {roomToBegin, Op{Kind: Void, Number: 1, Reason: "spoilt"}, true},
		"void, full":         {roomToEnd, Op{Kind: Void, Number: 1, Reason: "spoilt"}, false},
		"return":             {roomToBegin, Op{Kind: Return, Runs: []Run{{2, 2}}}, true},
		"return, full":       {roomToEnd, Op{Kind: Return, Runs: []Run{{2, 2}}}, false},
		"find":               {roomToEnd, Op{Kind: Find, ID: id(2)}, true},
		"issue once, nearly": {roomToBegin - 8000, Op{Kind: Issue, Count: 1, Once: "k"}, true},
	} {
		s := Fresh(&plain, "b", "")
		for _, op := range []Op{{Kind: Issue, Count: 3}, {Kind: Reserve, Count: 1, ID: id(1)}, {Kind: Reserve, Count: 1, ID: id(2), TTL: day}} {
			must.Get(s.Apply(1, &plain, &op, &Looked{}))(t)
		}
		s.size += test.size
		before := string(s.append(nil))
		res, err := ended(s, test.op)
		if fits := !errors.Is(err, errFull); fits != test.fits || fits && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := string(s.append(nil)); !test.fits && (res.Changed || len(res.Runs) > 0 || after != before) {
			t.Errorf("%s is refused, and yet: %+v, %s", name, res, after)
		}
	}
	// Events stand in the way of issuing no earlier than of ends.
	told := plain
	told.Told = true
	s := Fresh(&told, "b", "")
	for size, want := range map[int]error{roomToBegin: nil, roomToEnd: errFull} {
		s.size = size
		if _, err := s.Apply(1, &told, &Op{Kind: Issue, Count: 1}, nil); err != want { //nolint:errorlint // never wrapped
			t.Errorf("with events it issues in %d bytes: %v", size, err)
		}
	}
	s = Fresh(&plain, "b", "")
	must.Get(s.Apply(1, &plain, &Op{Kind: Reserve, Count: 1, ID: id(1)}, &Looked{}))(t)
	s.size += roomToEnd
	if res, err := ended(s, Op{Kind: Reclaim}); err != nil || res.Changed || s.NumReserved() != 1 {
		t.Errorf("a full document reclaims: %+v, %v", res, err)
	}
	s.size -= roomToEnd
	if res, err := ended(s, Op{Kind: Reclaim}); err != nil || len(res.Expired) != 1 || s.NumReserved() != 0 {
		t.Errorf("it does not reclaim: %+v, %v", res, err)
	}

	// A machine that lacks room copies the outbox at once, to make some.
	s.size, s.Revision = s.size+roomToBegin, 1
	m, now := New(Config{Counter: counter, Writer: "w"}, plain), time.Unix(0, 0)
	m.state, m.keeping.mine = s, map[int64]bool{1: true}
	if list, wake := m.Next(now, 1); len(list) > 0 || !wake.Equal(now.Add(keepWithin)) {
		t.Errorf("with room it wants %+v, and later more at %v", list, wake)
	}
	m.Submit(&Request{Op: Op{Kind: Issue, Count: 1, Once: "k"}})
	list, _ := m.Next(now, 1)
	look := list[0]
	m.Done(now, 1, &look, Outcome{})
	if list, _ = m.Next(now, 1); look.Action != LookUp || len(list) != 1 || list[0].Action != Keep {
		t.Errorf("after %+v the machine wants %+v", look, list)
	}
	s.Drop(func(int64) bool { return true })
	m = New(Config{Counter: counter, Writer: "w"}, plain)
	r := &Request{Op: Op{Kind: Issue, Count: 1, Once: "k"}}
	m.state, s.size = s, roomToBegin
	m.Submit(r)
	list, _ = m.Next(now, 1)
	look = list[0]
	m.Done(now, 1, &look, Outcome{})
	if m.Next(now, 1); !errors.Is(r.Err, errFull) {
		t.Errorf("without an outbox there will be no room: %v", r.Err)
	}
}

// A page of void numbers has at least one of this state, if there are more, and none of others.
func TestListVoids(t *testing.T) {
	w, s := newWorld(1, 0), Fresh(&plain, "b", "")
	s.Revision = 1
	for i, rev := range []int64{2, 2, 1, 1} {
		void := Entry{Kind: VoidEntry, Rev: rev, Runs: []Run{{int64(i) + 1, int64(i) + 1}}}
		_ = w.Keep(t.Context(), append(void.Records(counter), void.Records("other")...))
	}
	_ = w.Keep(t.Context(), (&Entry{Kind: VoidEntry, Rev: 1, Runs: []Run{{9, 9}}}).Records("other"))
	for _, test := range []struct {
		after int64
		limit int
		want  []int64
		more  bool
	}{{0, 1, []int64{3, 4}, true}, {0, 2, []int64{3}, true}, {0, 4, []int64{3, 4}, false}, {3, 1, []int64{4}, false}, {4, 1, nil, false}} {
		var got []int64
		own, more, err := s.ListVoids(t.Context(), w, counter, test.after, test.limit)
		for _, e := range own {
			got = append(got, e.Runs[0].To)
		}
		if err != nil || more != test.more || !slices.Equal(got, test.want) {
			t.Errorf("%d after %d: %v, more %t, %v", test.limit, test.after, got, more, err)
		}
	}
	if found, err := s.lookVoids(counter, Run{1, 9}).Do(t.Context(), w); err != nil || len(found) != 4 {
		t.Errorf("of the counter there are %v, %v", found, err)
	}
}

// Of the released numbers those up to the limit are available.
func TestAvailable(t *testing.T) {
	s := &State{Released: []Released{{Run{3, 5}, 1}, {Run{8, 8}, 1}}}
	for limit, want := range map[int64]int64{2: 0, 3: 1, 4: 2, 5: 3, 7: 3, 8: 4, 9: 4} {
		if got, few := s.available(limit, 9), s.available(limit, 2); got != want || few != min(want, 2) {
			t.Errorf("up to %d: %d, and %d of 2", limit, got, few)
		}
	}
}

// What a machine does with what it is told.
func TestMachine(t *testing.T) {
	now := time.Unix(0, 0)
	begin := func(kind Kind, s *State) (m *Machine, r *Request, c Command) {
		m, r = New(Config{Counter: counter, Writer: "w"}, plain), &Request{Op: Op{Kind: kind, Count: 1}}
		m.state = s
		m.Submit(r)
		list, _ := m.Next(now, 1)
		return m, r, list[0]
	}
	m, _, read := begin(Reclaim, nil)
	m.Done(now, 1, &read, Outcome{Err: persist.ErrNotFound})
	if list, wake := m.Next(now, 1); len(list) > 0 || !wake.IsZero() || !m.Idle() {
		t.Errorf("nothing is to be reclaimed, and it wants %+v", list)
	}
	if m.Abandon(&Request{}) {
		t.Error("a request is removed that does not wait")
	}

	m, r, write := begin(Issue, Fresh(&plain, "b", "f1"))
	if s, err := Decode(&write.Doc); err != nil || s.Fence != "" || write.Fenced {
		t.Errorf("the store has no fence any more: %+v, %v", write, err)
	}
	m.Done(now, 1, &write, Outcome{Err: persist.ErrInvalid})
	if list, wake := m.Next(now, 1); !errors.Is(r.Err, persist.ErrInvalid) || len(list) > 0 || !wake.IsZero() || !m.Idle() {
		t.Errorf("the store refuses a write: %v, and the machine wants %+v", r.Err, list)
	}

	// A write that is in doubt can still come if it was made up for this document and this server.
	m.fence.Current = "f2"
	for i, test := range []struct {
		p    pending
		s    State
		same bool
	}{
		{pending{}, State{}, true}, {pending{}, State{Revision: 1}, true}, {pending{era: 1}, State{}, true}, {pending{era: 1}, State{Revision: 1}, false},
		{pending{born: "w"}, State{Revision: 1}, false}, {pending{command: Command{Fenced: true, Fence: "f1"}}, State{}, false},
		{pending{command: Command{Fenced: true, Fence: "f2"}}, State{}, true},
	} {
		must.Equal(t, m.sameLine(&test.p, &test.s), test.same, "%d: same line", i)
	}

	// Look-ups for requests begin ahead, but not for all of very many. One may end after its
	// request was refused.
	m.state, m.queue = &State{Revision: 9, Dropped: 9, First: 1}, nil
	for i := range mostLooks + 9 {
		m.queue = append(m.queue, &Request{Op: Op{Kind: Issue, Count: 1, Once: fmt.Sprint(i)}})
	}
	m.commands = nil
	if m.lookAhead(); len(m.commands) != mostLooks {
		t.Errorf("%d look-ups begin", len(m.commands))
	}
	left := m.queue[0]
	m.refuse(left, errFull)
	if m.Done(now, 1, &m.commands[0], Outcome{}); left.looked != nil {
		t.Error("it still waits")
	}

	m.seen = Seen{Era: 1, Revision: 5}
	for i, e := range []Entry{{Rev: 6}, {Era: 1, Rev: 5}, {Era: 2, Rev: 6}, {Era: 1, Rev: 6}} {
		e.Kind, e.Runs = VoidEntry, []Run{{1, 1}}
		m.ahead(append(e.Records(counter), persist.Document{Body: "damaged"}))
		must.Equal(t, m.seen.Revision > 5, i == 3, "after a record of %d in era %d: it is seen", e.Rev, e.Era)
	}
}

// Next is due when the first pause ends that something waits for.
func TestWake(t *testing.T) {
	now := time.Unix(0, 0)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for name, c := range map[string]struct {
		m    Machine
		want time.Duration
	}{
		"nothing is to be done":    {Machine{retry: in(1)}, 0},
		"a request waits":          {Machine{retry: in(1), queue: make([]*Request, 1)}, 1},
		"a write is in doubt":      {Machine{retry: in(1), pending: &pending{}}, 1},
		"the outbox waits":         {Machine{retry: in(1), flush: true}, 1},
		"the pause is over":        {Machine{retry: now, flush: true}, 0},
		"the store is asked":       {Machine{retry: in(1), flush: true, busy: true}, 0},
		"a copy failed":            {Machine{state: &State{}, keeping: keeping{retry: in(2)}}, 2},
		"a copy is under way":      {Machine{state: &State{}, keeping: keeping{retry: in(2), since: now, busy: true}}, 0},
		"there is nothing to copy": {Machine{keeping: keeping{retry: in(2), since: now}}, 0},
		"a copy is due later":      {Machine{retry: in(1), flush: true, state: &State{}, keeping: keeping{retry: in(2)}}, 1},
		"a copy is due before":     {Machine{retry: in(3), flush: true, state: &State{}, keeping: keeping{retry: in(2)}}, 2},
		"an entry waits":           {Machine{retry: in(time.Hour), flush: true, state: &State{}, keeping: keeping{since: in(-1)}}, keepWithin - 1},
		"an entry waits for long":  {Machine{state: &State{}, keeping: keeping{since: in(-keepWithin)}}, 0},
		"an entry waits in vain":   {Machine{state: &State{}, keeping: keeping{since: in(-keepWithin), retry: in(5)}}, 5},
	} {
		wake := c.m.wake(now)
		if got := wake.Sub(now); wake.IsZero() != (c.want == 0) || c.want != 0 && got != c.want {
			t.Errorf("%s: %v", name, wake)
		}
	}
	for i, m := range []Machine{{queue: make([]*Request, 1)}, {pending: &pending{}}, {busy: true}, {flush: true}, {keeping: keeping{active: true}}, {looks: map[uint64]*Request{1: nil}}} {
		if m.Idle() {
			t.Errorf("machine %d is idle", i)
		}
	}
}

// What a policy changes is a change, also if the operation is refused.
func TestAdopt(t *testing.T) {
	for name, change := range map[string]func(*Policy){
		"nothing": func(*Policy) {}, "void": func(p *Policy) { p.Void = true }, "ends": func(p *Policy) { p.Ends = day }, "ended": func(p *Policy) { p.Ends = 1 },
		"start at last": func(p *Policy) { p.Start = 5 }, "start": func(p *Policy) { p.Start = 6 },
		"floor at last": func(p *Policy) { p.Floor = 4 }, "floor": func(p *Policy) { p.Floor = 5 },
	} {
		s, p := Fresh(&plain, "b", ""), plain
		for _, op := range []Op{{Count: 3}, {Kind: Reserve, Count: 1, ID: id(1)}, {Kind: Release, ID: id(1)}} {
			must.Get(s.Apply(1, &p, &op, &Looked{}))(t)
		}
		change(&p)
		before := string(s.append(nil))
		res, err := s.Apply(2, &p, &Op{Kind: Void, Reason: "spoilt"}, nil)
		after := string(s.append(nil))
		if want := name != "nothing" && !strings.HasSuffix(name, "at last"); err == nil || res.Changed != want || (after != before) != want {
			t.Errorf("%s: changed %t, %v, from %s to %s", name, res.Changed, err, before, after)
		}
	}
}

// In a period that was closed nothing new is given to requests that may be repeated. It is opened
// only before its end.
func TestClosedPeriod(t *testing.T) {
	for _, test := range []struct {
		now    int64
		closed bool
		op     Op
		want   error
		after  bool
	}{
		{99, true, Op{Count: 1, Once: "k"}, errShut, true}, {100, true, Op{Count: 1, Once: "k"}, errClosed, true},
		{99, false, Op{Count: 1, Once: "k", NoAnswer: errFull}, errFull, false}, {99, true, Op{Kind: Reopen}, nil, false}, {100, true, Op{Kind: Reopen}, nil, true},
	} {
		s := Fresh(&Policy{Start: 1, Ends: 100}, "b", "")
		s.Closed = test.closed
		p := s.Policy()
		_, err := s.Apply(test.now, &p, &test.op, &Looked{})
		if must.Is(t, err, test.want, "%+v", test); s.Closed != test.after {
			t.Errorf("%+v: closed %t", test, s.Closed)
		}
	}
}

// What no ledger can carry out is refused.
func TestOps(t *testing.T) {
	issue := func(change func(*Op)) Op { op := Op{Count: 1}; change(&op); return op }
	reserve := func(ttl int64, id string) Op { return Op{Kind: Reserve, Count: 1, TTL: ttl, ID: id} }
	text := func(n int) string { return strings.Repeat("x", n) }
	for code, ops := range map[seqd.Code][]Op{
		"": {
			{Count: 1}, {Count: seqd.MaxCount}, reserve(0, id(1)), reserve(1000, id(1)), reserve(day, "0123456789abcdef0000"),
			issue(func(op *Op) { op.Once, op.Caller = text(63)+"!", text(256) }), issue(func(op *Op) { op.Once = "~" }),
			{Kind: Void, Reason: "\u00e9"}, {Kind: Raise, Reason: text(200)}, {Kind: Reclaim}, {Kind: Return}, {Kind: Find, ID: id(1)},
		},
		seqd.CodeInvalidCount:       {{}, {Count: seqd.MaxCount + 1}, {Kind: Reserve, ID: id(1)}},
		seqd.CodeInvalidTTL:         {reserve(999, id(1)), reserve(day+1, id(1)), reserve(-1, id(1))},
		seqd.CodeUnknownReservation: {reserve(0, ""), reserve(0, text(20)), reserve(0, id(1)+"0"), {Kind: Confirm, ID: "A" + id(1)[1:]}, {Kind: Release, ID: "g" + id(1)[1:]}, {Kind: Find, ID: "/:`" + id(1)[3:]}},
		seqd.CodeInvalidRequest: {
			issue(func(op *Op) { op.Once = text(65) }), issue(func(op *Op) { op.Once = " " }), issue(func(op *Op) { op.Once = "\x7f" }),
			issue(func(op *Op) { op.Caller = text(257) }), issue(func(op *Op) { op.Caller = "\xff" }),
			{Kind: Void}, {Kind: Raise, Reason: text(201)}, {Kind: Void, Reason: "\n"}, {Kind: Void, Reason: "\xff"},
		},
		seqd.CodeInternal: {{Kind: Begin + 1}},
	} {
		for _, op := range ops {
			must.Code(t, op.check(), code, "%+v", op)
		}
	}
}

// A machine whose document went back says so to its successors, until the document was raised.
func TestSeenRefuses(t *testing.T) {
	older, raised := Fresh(&plain, "w", ""), Fresh(&plain, "w", "")
	older.Revision, raised.Revision, raised.Era = 3, 6, 2
	m := New(Config{Counter: "invoice", Writer: "w"}, plain)
	m.Inherit(Seen{Born: older.Born, Era: older.Era, Revision: 5})
	for _, test := range []struct {
		name    string
		state   *State
		refuses bool
	}{{"gone", nil, true}, {"older", older, true}, {"raised", raised, false}} {
		out := Outcome{Err: persist.ErrNotFound}
		if test.state != nil {
			doc, err := test.state.Document("invoice", 0)
			out = Outcome{Doc: doc, Err: err}
		}
		now := time.Now().Add(time.Minute)
		m.Submit(&Request{Op: Op{Kind: Find, ID: "none"}})
		m.retry = time.Time{}
		list, _ := m.Next(now, 0)
		m.Done(now, 0, &list[0], out)
		must.Equal(t, m.Seen().Refuses(), test.refuses, "%s: refuses, with %v,", test.name, m.Refusal())
	}
}

// The latest of what predecessors saw counts, and the highest number of all.
func TestInherit(t *testing.T) {
	for want, list := range map[Seen][]Seen{
		{"a", 1, 5, 50, false}: {{"a", 1, 5, 50, false}, {"b", 1, 4, 40, false}, {"c", 0, 9, 30, false}, {"d", 1, 5, 20, false}},
		{"b", 1, 6, 50, false}: {{"a", 1, 5, 50, false}, {"b", 1, 6, 40, false}},
		{"b", 2, 1, 60, false}: {{"a", 1, 5, 50, false}, {"b", 2, 1, 60, false}},
		{"a", 1, 5, 70, false}: {{"a", 1, 5, 50, false}, {"b", 1, 1, 70, false}},
	} {
		m := New(Config{}, plain)
		for _, seen := range list {
			m.Inherit(seen)
		}
		must.Equal(t, m.Seen(), want, "after %v", list)
	}
}
