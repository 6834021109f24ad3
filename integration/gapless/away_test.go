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

func turn(t *testing.T, clock string, by time.Duration) {
	t.Helper()
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], uint64(by))
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
// caller can confirm what was committed meanwhile. After that it is reclaimed within seconds, and
// the lowest numbers go out first.
func TestAwayForAnHour(t *testing.T) {
	const ttl = 8 * time.Second
	clock := filepath.Join(t.TempDir(), "clock")
	turn(t, clock, 0)
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
	turn(t, clock, time.Hour)
	back := time.Now()
	m.Start()
	if r, status := ask(t, m, http.MethodPost, "/"+list[1].Reservation+"/confirm"); status != http.StatusOK || r.State != "confirmed" {
		t.Errorf("after an hour: %d %+v", status, r)
	}
	for _, i := range []int{0, 2} {
		if r, _ := ask(t, m, http.MethodGet, "/"+list[i].Reservation); r.State != "reserved" {
			t.Errorf("%s is %s after %v", r.Reservation, r.State, time.Since(back))
		}
	}
	for _, i := range []int{0, 2} {
		reclaimed(t, m, list[i].Reservation, back, ttl)
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

// reclaimed waits until a reservation has expired: not before its time, and within seconds of it.
func reclaimed(t *testing.T, m *fleet.Member, id string, back time.Time, ttl time.Duration) {
	t.Helper()
	for {
		r, status := ask(t, m, http.MethodGet, "/"+id)
		took := time.Since(back)
		switch {
		case status != http.StatusOK:
			t.Fatalf("%d %+v", status, r)
		case r.State == "expired" && took < ttl:
			t.Fatalf("%s has expired %v after the node was back", id, took)
		case r.State == "expired":
			t.Logf("reclaimed %v after the node was back", took)
			return
		case took > ttl+20*time.Second: // a loaded machine
			t.Fatalf("%s is %s %v after the node was back", id, r.State, took)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
