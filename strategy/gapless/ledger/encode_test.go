package ledger

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

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
	if _, err := Decode(&persist.Document{Revision: 0, Body: good}); !errors.Is(err, persist.ErrInvalid) {
		t.Errorf("without a revision: %v", err)
	}
}

// Nor is a record, whoever reads it.
func TestDamagedRecord(t *testing.T) {
	for _, body := range []string{"", "{", `{"k":"v"}`, `{"k":"v","n":[1]}`, `{"k":"v","n":[1,2,2,3]}`, `{"k":"","n":[1,1]}`, `{"k":"e","z":"xx","n":[1,1]}`} {
		record := persist.Document{Kind: persist.VoidKind, Key: VoidKey(counter, 1), Body: body}
		if e, err := DecodeEntry(&record); !errors.Is(err, persist.ErrInvalid) || e != nil {
			t.Errorf("a record of %q: %+v, %v", body, e, err)
		}
		if _, err := VoidsOf([]persist.Document{record}); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("void numbers of %q: %v", body, err)
		}
		s := Fresh(&plain, "b", "")
		if _, err := s.AllVoids([]persist.Document{record}); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("all void numbers with %q: %v", body, err)
		}
		if _, _, err := s.Account(&plain, 0, 9, []persist.Document{record}, true); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("an account with %q: %v", body, err)
		}
		if _, err := s.own([]persist.Document{record}, 0); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("whose is %q: %v", body, err)
		}
		w := newWorld(1, 0)
		w.docs[record.PersistID()] = record
		if _, _, err := s.ListVoids(t.Context(), w, counter, 0, 9); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("a list with %q: %v", body, err)
		}
		if _, err := s.lookedVoids(&Looked{Docs: []persist.Document{record}}); !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("a look-up that finds %q: %v", body, err)
		}
	}
}

// Check finds what does not add up.
func TestCheck(t *testing.T) {
	s := Fresh(&plain, "b", "")
	apply := func(op Op) {
		t.Helper()
		if _, err := s.Apply(1, &plain, &op, &Looked{}); err != nil {
			t.Fatal(err)
		}
	}
	apply(Op{Kind: Issue, Count: 4})
	apply(Op{Kind: Reserve, Count: 2, ID: id(1)})
	apply(Op{Kind: Reserve, Count: 1, ID: id(2)})
	apply(Op{Kind: Release, ID: id(1)})
	apply(Op{Kind: Void, Number: 2, Reason: "spoilt"})
	if err := s.Check([]Run{{2, 2}}); err != nil {
		t.Error(err)
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
		c := s.Clone()
		if change(c); c.Check([]Run{{2, 2}}) == nil {
			t.Errorf("%s: a wrong state passes", name)
		}
	}
	if err := s.Check([]Run{{2, 2}}); err != nil {
		t.Errorf("a clone shares what changes: %v", err)
	}
}

// What is read is what was written, also in what is counted beside it.
func TestRoundTrip(t *testing.T) {
	s := Fresh(&plain, "b", "f1")
	for _, op := range []Op{
		{Kind: Issue, Count: 9, Once: "k1"},
		{Kind: Reserve, Count: 2, ID: id(1), Caller: "caf\u00e9 \"1\"\\\x01"}, {Kind: Reserve, Count: 3, ID: id(2), Once: "k2", TTL: 5000},
		{Kind: Reserve, Count: 1, ID: id(3)}, {Kind: Raise, To: 20, Reason: "failover", Fence: "f2"}, {Kind: Void, Number: 4, Reason: "spoilt \u00e9"},
		{Kind: Reserve, Count: 4, ID: id(4)}, {Kind: Release, ID: id(4)}, {Kind: Confirm, ID: id(1), Admin: true},
		{Kind: Issue, Count: 1, Once: "k3", Recall: true},
	} {
		_, _ = s.Apply(1000, &plain, &op, &Looked{Since: Since{s.Era, s.Revision}})
	}
	s.Drop(func(int64) bool { return false })
	s.wrote("w1", 3)
	d, err := s.Document(counter, 1000)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(&d)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := s.Document(counter, 1); err != nil {
		t.Error(err)
	}
	s.Born += "x"
	if _, err := s.Document(counter, 1); !errors.Is(err, persist.ErrInvalid) {
		t.Errorf("a document of more than 1 MiB: %v", err)
	}
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
			if _, err := s.Apply(1, &plain, &op, &Looked{}); err != nil {
				t.Fatal(err)
			}
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
	s := Fresh(&plain, "b", "")
	if _, err := s.Apply(1, &plain, &Op{Kind: Reserve, Count: 1, ID: id(1)}, &Looked{}); err != nil {
		t.Fatal(err)
	}
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
	m := New(Config{Counter: counter, Writer: "w"}, plain)
	m.state = s
	m.Submit(&Request{Op: Op{Kind: Issue, Count: 1, Once: "k"}})
	list, _ := m.Next(time.Time{}, 1)
	look := list[0]
	m.Done(time.Time{}, 1, &look, Outcome{})
	if list, _ = m.Next(time.Time{}, 1); look.Action != LookUp || len(list) != 1 || list[0].Action != Keep {
		t.Errorf("after %+v the machine wants %+v", look, list)
	}
}
