package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// full is what a store is filled with, and how that can be seen from outside.
type full struct {
	*testing.T
	shown []string       // paths whose answers stay the same
	last  map[string]int // numbers that were issued
	year  string         // in which
}

// do sends a request that must be answered so, and decodes what comes.
func (f *full) do(n *node.Node, status int, method, path, body string) (answer struct {
	ID, Number, Period, Reservation string
}) {
	f.Helper()
	a := must.Get(n.Do(method, path, body))(f)
	if a.Status != status {
		f.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	if a.Body != "" {
		must.Do(f, json.Unmarshal([]byte(a.Body), &answer))
	}
	return answer
}

// fill makes one of each kind of record.
func (f *full) fill(n *node.Node) {
	f.Helper()
	for name, definition := range map[string]string{
		"parcel":  `{"start":100,"plugins":[{"name":"history","onOverflow":"block"}]}`,
		"invoice": `{"strategy":"gapless","plugins":[{"name":"format","template":"INV-{seq:06}"}]}`,
		"tenant":  `{"keyed":true}`,
		"yearly":  `{"reset":"yearly","plugins":[{"name":"format","template":"{date:2006}-{seq}"}]}`,
		"user":    `{"strategy":"snowflake"}`,
		"hidden":  `{"plugins":[{"name":"obfuscate","digits":8,"key":"a key of the test"}]}`,
	} {
		f.do(n, http.StatusCreated, http.MethodPut, "/biz-types/"+name, definition)
		f.shown = append(f.shown, "/biz-types/"+name)
	}
	issue := func(bizType string) (path string) {
		path = f.parsed(n, bizType)
		f.shown = append(f.shown, path)
		return path
	}
	issue("user")
	f.last = map[string]int{"parcel": 99}
	for bizType, count := range map[string]int{"parcel": 3, "tenant?key=a": 2, "tenant?key=b": 1, "hidden": 1} {
		for range count {
			issue(bizType)
		}
		f.last[bizType] += count
	}
	says := f.do(n, http.StatusOK, http.MethodGet, issue("yearly"), "")
	f.year, f.last["yearly"] = says.Period, must.Get(strconv.Atoi(says.Number))(f)
	void := f.do(n, http.StatusOK, http.MethodGet, "/seq/invoice", "").ID
	f.do(n, http.StatusNoContent, http.MethodPost, "/biz-types/invoice/voids", `{"id":"`+void+`","reason":"torn"}`)
	reserved := func() string {
		return "/seq/invoice/reservations/" + f.do(n, http.StatusCreated, http.MethodPost, "/seq/invoice/reservations?count=2&ttl=1h", "").Reservation
	}
	open, confirmed, released := reserved(), reserved(), reserved()
	f.do(n, http.StatusOK, http.MethodPost, confirmed+"/confirm", "")
	f.do(n, http.StatusNoContent, http.MethodDelete, released, "")
	f.last["invoice"] = 5 // the numbers that were released come next
	f.do(n, http.StatusCreated, http.MethodPost, "/tokens", `{"name":"shop","scopes":["issue:parcel"]}`)
	f.do(n, http.StatusCreated, http.MethodPut, "/worker-pools/tills", `{"ttl":"1h"}`)
	f.do(n, http.StatusCreated, http.MethodPost, "/workers/tills", `{"instance":"till-1"}`)
	job := "/jobs/" + f.do(n, http.StatusAccepted, http.MethodPost, "/jobs", `{"bizType":"hidden","count":50}`).ID
	f.last["hidden"] += 50
	f.shown = append(f.shown, open, confirmed, released, job, job+"/result", "/biz-types/invoice/gaps", "/biz-types/parcel/history",
		"/biz-types", "/biz-types/tenant/keys", "/counters", "/tokens", "/tokens/shop/secrets", "/worker-pools/tills")
	await.Eventually(f.T, "the job and the records", func() error {
		_, done := n.Status(job)
		_, records := n.Status("/biz-types/parcel/history")
		if !strings.Contains(done, `"state":"done"`) || strings.Count(records, `"first"`) < f.last["parcel"]-99 {
			return errors.New(done + records)
		}
		return nil
	})
}

// parsed issues a number, and returns the path that says what its ID means.
func (f *full) parsed(n *node.Node, bizType string) string {
	f.Helper()
	name, key, _ := strings.Cut(bizType, "?")
	return "/seq/" + name + "/parse/" + f.do(n, http.StatusOK, http.MethodGet, "/seq/"+bizType, "").ID + "?" + key
}

// see returns what a node shows.
func (f *full) see(n *node.Node) map[string]string {
	f.Helper()
	seen := make(map[string]string)
	for _, path := range f.shown {
		a := must.Get(n.Do(http.MethodGet, path, ""))(f)
		if a.Status != http.StatusOK {
			f.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
		seen[path] = a.Body
	}
	return seen
}

// goesOn checks that each biz type gives its next number.
func (f *full) goesOn(n *node.Node) {
	f.Helper()
	for bizType, last := range f.last {
		path := f.parsed(n, bizType)
		says := f.do(n, http.StatusOK, http.MethodGet, path, "")
		if want := strconv.Itoa(last + 1); says.Number != want && (says.Period == "" || says.Period == f.year) {
			f.Errorf("%s is the number %s, want %s", path, says.Number, want)
		}
	}
	if user := f.parsed(n, "user"); slices.Contains(f.shown, user) {
		f.Errorf("%s again", user)
	}
}

// Definitions, accounts, what IDs say, reservations, records, jobs, tokens, machine IDs and answers are moved
// from a bolt file to PostgreSQL, from there to MongoDB, and into another bolt file. They are the same
// everywhere, and then each biz type goes on with its next number.
func TestMoveKeepsEverything(t *testing.T) {
	t.Parallel()
	stores := []movable{movableBolt(t), movablePostgres(t), movableMongo(t), movableBolt(t)}
	f := &full{T: t}
	var want map[string]string
	var answer string
	for i, store := range stores {
		env := slices.DeleteFunc(slices.Clone(store.env), func(e string) bool { return e == movedBizTypes })
		n := node.StartReady(t, t.TempDir(), env...)
		if i == 0 {
			f.fill(n)
			answer = once(t, n, "key", "hidden")
			f.last["hidden"]++
			n.Stop() // gives back what it has in hand
			n = node.StartReady(t, t.TempDir(), env...)
			want = f.see(n)
		}
		for path, now := range f.see(n) {
			if now != want[path] {
				t.Errorf("store %d: GET %s\n is %s\nwas %s", i, path, now, want[path])
			}
		}
		must.Equal(t, once(t, n, "key", "hidden"), answer)
		if i == len(stores)-1 {
			f.goesOn(n)
		}
		n.Stop()
		if i < len(stores)-1 {
			moved(t, 0, "moved to", "move", "--from", store.file, "--to", stores[i+1].file)
		}
	}
}
