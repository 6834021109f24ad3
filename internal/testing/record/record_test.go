package record

import (
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// entries has one entry of each kind, with every field that has its own encoding.
func entries() []Entry {
	return []Entry{
		{World: &World{Seed: 7, Began: 1, Nodes: []string{"a", "b"}, BizTypes: []BizType{{Name: "order", Strategy: Segment, Ordering: Strict}}}},
		{Life: &Life{Node: "a", Life: 1, Begin: 5}},
		{Call: &Call{Start: 1, End: 2, Node: "a", Life: 1, BizType: "order", Kind: Batch, Asked: 3, Status: 200, Runs: Runs{{5, 2, 1}, {9, 1, 1}}}},
		{Call: &Call{Start: 2, End: 3, Node: "a", BizType: "invoice", Kind: Parse, Status: 200, Texts: []string{"I-<1>"}, Runs: Runs{{1, 1, 1}}, Parsed: &Parsed{Valid: true}}},
		{Fault: &Fault{ID: 1, Class: "kill", Target: "a", Begin: 3, LosesKeys: true}},
		{Sample: &Sample{At: 4, Node: "a", Status: 200, States: map[string]string{"order": "redis_unavailable"}}},
		{Server: &Server{At: 4, Name: "r1", Role: Primary}},
		{Line: &Line{At: 5, Node: "a", Life: 1, What: OnItsOwn}},
		{Offset: &Offset{At: 6, Node: "a", Nanoseconds: -5}},
		{Use: &Use{At: 7, Pool: "shop", Worker: 3, Program: "p", Lease: 1, First: 5, Last: 9}},
		{Duty: &Duty{From: 7, Until: 8, Work: "w", Most: 1, Session: "a.1", Term: 3, First: 5, Last: 9}},
		{Done: &Done{At: 9}},
	}
}

func write(t *testing.T, all []Entry) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "record")
	w := must.Get(Create(path))(t)
	for _, e := range all {
		must.Do(t, w.Write(e))
	}
	must.Do(t, w.Close())
	return path
}

func read(path string) (all []Entry, torn bool, err error) {
	torn, err = Read(path, func(e *Entry) error {
		all = append(all, *e)
		return nil
	})
	return all, torn, err
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	want := entries()
	got, torn, err := read(write(t, want))
	if err != nil || torn || !reflect.DeepEqual(got, want) {
		t.Errorf("torn %v, %v\ngot  %+v\nwant %+v", torn, err, got, want)
	}
}

// Frames are written whole. The test cuts the file at every length that a crash may leave.
func TestATornEndIsTheEnd(t *testing.T) {
	path := write(t, entries())
	whole := must.Get(os.ReadFile(path))(t)
	for length := 0; length < 2*len(whole); length += longtest.Or(5, 1) {
		if length == len(whole) {
			continue // a boundary, like 0: whole
		}
		doubled := append(append([]byte{}, whole...), whole...)[:length]
		must.Do(t, os.WriteFile(path, doubled, 0o600))
		got, torn, err := read(path)
		least := len(entries()) * (length / len(whole))
		if err != nil || torn != (length%len(whole) != 0) || len(got) < least {
			t.Fatalf("%d bytes of %d: %d entries of %d, torn %v, %v", length, 2*len(whole), len(got), least, torn, err)
		}
	}
}

func TestDamageIsAnError(t *testing.T) {
	path := write(t, entries())
	whole := must.Get(os.ReadFile(path))(t)
	doubled := append(append([]byte{}, whole...), whole...)
	doubled[len(whole)-1] ^= 1 // the checksum of the first frame
	must.Do(t, os.WriteFile(path, doubled, 0o600))
	if _, torn, err := read(path); err == nil || torn {
		t.Errorf("torn %v, %v", torn, err)
	}
}

func TestWritersDoNotMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	w := must.Get(Create(path))(t)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := range 1000 {
				must.Report(t, w.Write(Entry{Call: &Call{Start: int64(i*1000 + j), Runs: Runs{{int64(i), 10_000, 1}}}}))
			}
		})
	}
	writers.Wait()
	must.Do(t, w.Close())
	seen := make(map[int64]bool)
	got, _, err := read(path)
	for _, e := range got {
		seen[e.Call.Start] = true
	}
	if err != nil || len(seen) != 8000 {
		t.Errorf("%d entries, %v", len(seen), err)
	}
	if err := w.Write(Entry{Done: &Done{}}); err == nil || w.Close() != nil {
		t.Error("a closed record is written to")
	}
	if _, err := Create(path); err == nil {
		t.Error("a record is overwritten")
	}
}

func TestAppendNumber(t *testing.T) {
	var rs Runs
	for _, n := range []int64{1, 2, 3, 10, 1034, 2058, 5, 5} {
		rs = rs.AppendNumber(n)
	}
	want := Runs{{1, 3, 1}, {10, 3, 1024}, {5, 1, 1}, {5, 1, 1}}
	if !reflect.DeepEqual(rs, want) || rs.Numbers() != 8 || want[1].Last() != 2058 {
		t.Errorf("got %v, want %v", rs, want)
	}
}
