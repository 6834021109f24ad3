package gapless

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/await"
)

// reservation is an answer about one.
type reservation struct {
	Reservation, State, Code string
	IDs                      []string
}

func ask(t *testing.T, m *fleet.Member, method, path string) (r reservation, status int) {
	t.Helper()
	answer, err := m.Node.Do(method, "/seq/bill/reservations"+path, "")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body != "" {
		if err := json.Unmarshal([]byte(answer.Body), &r); err != nil {
			t.Fatal(err)
		}
	}
	return r, answer.Status
}

// set sets the clock to a time, where it stands still unless it runs.
func set(t *testing.T, clock string, at time.Time, runs bool) {
	t.Helper()
	var raw [16]byte
	if runs {
		binary.LittleEndian.PutUint64(raw[:], uint64(time.Until(at)))
	} else {
		binary.LittleEndian.PutUint64(raw[8:], uint64(at.UnixNano()))
	}
	file, err := os.OpenFile(clock, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(raw[:], 0); err != nil {
		t.Fatal(err)
	}
}

// Every node is away for an hour. Then what was reserved before has its whole time once more: its
// caller can confirm what was committed meanwhile. After that it is reclaimed, and the lowest numbers
// go out first.
func TestAwayForAnHour(t *testing.T) {
	const ttl = 8 * time.Second
	clock := filepath.Join(t.TempDir(), "clock")
	began := time.Now()
	set(t, clock, began, false)
	m := fleet.Start(t, 1, "SEQD_TEST_CLOCK="+clock, `SEQD_BIZTYPES=[{"name":"bill","strategy":"gapless","reservationTTL":"`+ttl.String()+`"}]`)[0]
	var list []reservation
	for range 3 {
		r, status := ask(t, m, http.MethodPost, "?count=2")
		if status != http.StatusCreated {
			t.Fatalf("%d %+v", status, r)
		}
		list = append(list, r)
	}
	m.Kill()
	back := began.Add(time.Hour)
	set(t, clock, back, false)
	m.Start()
	if r, status := ask(t, m, http.MethodPost, "/"+list[1].Reservation+"/confirm"); status != http.StatusOK || r.State != "confirmed" {
		t.Errorf("after an hour: %d %+v", status, r)
	}
	for _, i := range []int{0, 2} {
		if r, _ := ask(t, m, http.MethodGet, "/"+list[i].Reservation); r.State != "reserved" {
			t.Errorf("%s is %s when the node is back", r.Reservation, r.State)
		}
	}
	runs := time.Now()
	set(t, clock, back, true)
	for _, i := range []int{0, 2} {
		await.True(t, "what was reserved is reclaimed", func() bool {
			r, _ := ask(t, m, http.MethodGet, "/"+list[i].Reservation)
			if took := time.Since(runs); r.State == "expired" && took < ttl {
				t.Fatalf("%s has expired %v after the node was back", r.Reservation, took)
			}
			return r.State == "expired"
		})
	}
	if r, status := ask(t, m, http.MethodPost, "/"+list[0].Reservation+"/confirm"); status != http.StatusConflict || r.Code != "reservation_expired" {
		t.Errorf("after its time: %d %+v", status, r)
	}
	a := readAccount(t, m)
	if a.Last != "6" || a.Issued != 2 || len(a.Gaps) != 2 || a.Gaps[0].State != "released" || a.Gaps[0].From != "1" || a.Gaps[0].To != "2" || a.Gaps[1].From != "5" {
		t.Errorf("%+v", a)
	}
	answer, err := m.Node.Do(http.MethodGet, "/seq/bill?count=3", "")
	if err != nil || answer.Body != `{"bizType":"bill","ids":["1","2","5"]}` {
		t.Errorf("%v %s", err, answer.Body)
	}
}
