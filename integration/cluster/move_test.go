package cluster

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// movable is a store as nodes get it, in their environment, and as commands do, in a file.
type movable struct {
	env  []string
	file string
}

const movedBizTypes = `SEQD_BIZTYPES=[{"name":"order","start":100},{"name":"local","ordering":"per-node"},{"name":"invoice","strategy":"gapless"},` +
	`{"name":"tenant","keyed":true},{"name":"user","strategy":"snowflake"}]`

func newMovable(t *testing.T, driver, key, place string, more ...string) movable {
	file := filepath.Join(t.TempDir(), "seqd.yaml")
	text := fmt.Sprintf("store: {driver: %s, %s: {%s: %q}}\n", driver, driver, key, place)
	for _, one := range more {
		if addr, is := strings.CutPrefix(one, "SEQD_REDIS_ADDRS="); is {
			text += fmt.Sprintf("redis: {addrs: [%q]}\n", addr)
		}
	}
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	place = fmt.Sprintf("SEQD_STORE_%s_%s=%s", strings.ToUpper(driver), strings.ToUpper(key), place)
	return movable{append([]string{"SEQD_STORE_DRIVER=" + driver, place, movedBizTypes}, more...), file}
}

// movablePostgres is a new database.
func movablePostgres(t *testing.T, more ...string) movable {
	for _, one := range fleet.Postgres(t) {
		if url, is := strings.CutPrefix(one, "SEQD_STORE_POSTGRES_URL="); is {
			return newMovable(t, "postgres", "url", url, more...)
		}
	}
	t.Fatal("no database")
	return movable{}
}

// movableMySQL is a new database.
func movableMySQL(t *testing.T, more ...string) movable {
	return newMovable(t, "mysql", "dsn", testenv.StartMySQL(t).NewDSN(), more...)
}

// movableMongo is a new server.
func movableMongo(t *testing.T, more ...string) movable {
	m := newMovable(t, "mongo", "uri", testenv.StartMongo(t).URI(), more...)
	m.env = append(m.env, "SEQD_STORE_MONGO_TIMEOUT=10s")
	text := strings.Replace(string(must.Get(os.ReadFile(m.file))(t)), "{uri:", "{timeout: 10s, uri:", 1)
	must.Do(t, os.WriteFile(m.file, []byte(text), 0o600))
	return m
}

func movableBolt(t *testing.T) movable {
	return newMovable(t, "bolt", "path", filepath.Join(t.TempDir(), "seqd.db"))
}

// moved runs a command that must end so, and say something.
func moved(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	out, ended := node.Command(t, t.TempDir(), nil, args...)
	if ended != code || !strings.Contains(out, says) {
		t.Fatalf("%q ended with %d: %s", args, ended, out)
	}
}

// once issues a number under an Idempotency-Key.
func once(t *testing.T, n *node.Node, key, bizType string) string {
	t.Helper()
	request := must.Get(http.NewRequest(http.MethodPost, n.URL+"/seq/"+bizType, http.NoBody))(t)
	request.Header.Set("Idempotency-Key", key)
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	return string(text)
}

// Everything is moved from a bolt file to PostgreSQL, from there to MongoDB, by an export into another
// file, to MariaDB, and back. Each biz type goes on with its next number, keys and answers are known, and no former
// store can be used.
func TestMoveOverStores(t *testing.T) {
	t.Parallel()
	stores := []movable{
		movableBolt(t), movablePostgres(t), movableMongo(t), movableBolt(t), movableMySQL(t), movablePostgres(t),
	}
	last, answer := map[string]int64{"order": 99}, ""
	for i, store := range stores {
		switch {
		case i == 3:
			dump := filepath.Join(t.TempDir(), "seqd.export")
			moved(t, 0, "shut", "export", dump, "--config", stores[2].file)
			moved(t, 0, "nodes can use the store again", "export", "--undo", "--config", stores[2].file)
			moved(t, 78, "undone", "import", "--from", dump, "--config", store.file)
			moved(t, 0, "shut", "export", dump+"2", "--config", stores[2].file)
			moved(t, 0, "imported into bolt", "import", "--from", dump+"2", "--config", store.file)
			moved(t, 78, "into another store", "import", "--from", dump+"2", "--config", stores[4].file)
			moved(t, 78, "no way back", "export", "--undo", "--config", stores[2].file)
		case i > 0:
			moved(t, 0, "moved to", "move", "--from", stores[i-1].file, "--to", store.file)
			moved(t, 0, "done already", "move", "--from", stores[i-1].file, "--to", store.file)
			moved(t, 78, "There is no way back", "move", "--undo", "--from", stores[i-1].file)
		}
		if i > 0 {
			for _, command := range [][]string{{"serve"}, {"counters"}, {"raise", "order", "5000"}} {
				out, code := node.Command(t, t.TempDir(), nil, append(command, "--config", stores[i-1].file)...)
				if code == 0 || !strings.Contains(out, "store was") {
					t.Errorf("%q on the former store ended with %d: %s", command, code, out)
				}
			}
		}
		n := node.StartReady(t, t.TempDir(), store.env...)
		for _, bizType := range []string{"order", "local", "invoice", "tenant?key=a", fmt.Sprintf("tenant?key=%d", i)} {
			for range 5 {
				status, body := n.Status("/seq/" + bizType)
				if last[bizType]++; status != 200 || !strings.Contains(body, fmt.Sprintf("%q", fmt.Sprint(last[bizType]))) {
					t.Fatalf("%s from store %d: %d %s, want %d", bizType, i, status, body, last[bizType])
				}
			}
		}
		if status, body := n.Status("/seq/user"); status != 200 {
			t.Errorf("user: %d %s", status, body)
		}
		if i == 0 {
			answer = once(t, n, "key", "order")
			last["order"]++
		}
		must.Equal(t, once(t, n, "key", "order"), answer)
		n.Stop()
	}
}

// A node is suspended, everything is moved beside it, and it wakes: it gets no number from the former
// store, not even for a new key, and says so. The cursors of Redis go on.
func TestMoveBesideASuspendedNode(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*testing.T, ...string) movable{"postgres": movablePostgres, "mongo": movableMongo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := "SEQD_REDIS_ADDRS=" + testenv.StartRedis(t).Addr()
			testBesideASuspendedNode(t, source(t, redis), movableMySQL(t, redis))
		})
	}
}

func testBesideASuspendedNode(t *testing.T, from, to movable) {
	other := movablePostgres(t)
	a, forgotten := node.StartReady(t, t.TempDir(), from.env...), node.StartReady(t, t.TempDir(),
		append(from.env, "SEQD_SEGMENT_ACQUIRETIMEOUT=300ms", "SEQD_GAPLESS_ACQUIRETIMEOUT=300ms")...)
	seen := make(map[string]string)
	issue := func(n *node.Node, store, bizType string) int {
		status, body := n.Status("/seq/" + bizType)
		id := bizType + " " + strings.TrimSpace(body)
		if status == 200 && seen[id] != "" {
			t.Errorf("%s from %s and %s", id, seen[id], store)
		}
		if status == 200 {
			seen[id] = store
		}
		return status
	}
	for range 5 {
		issue(a, "a", "order")
		issue(forgotten, "the forgotten one", "invoice")
	}
	moved(t, 1, "seqd runs", "move", "--from", from.file, "--to", to.file)
	forgotten.Pause()
	a.Stop()
	moved(t, 78, "same redis.addrs", "move", "--from", from.file, "--to", other.file)
	moved(t, 0, "moved to", "move", "--from", from.file, "--to", to.file)
	b := node.StartReady(t, t.TempDir(), to.env...)
	_, body := b.Status("/seq/order")
	if !strings.Contains(body, `"105"`) {
		t.Errorf("the cursor does not go on: %s", body)
	}
	seen["order "+strings.TrimSpace(body)] = "b"
	forgotten.Resume()
	for range 10 {
		for _, bizType := range []string{"order", "local", "invoice", "tenant?key=new", "user"} {
			issue(b, "b", bizType)
			if status := issue(forgotten, "the forgotten one", bizType); status == 200 && (bizType == "invoice" || bizType == "tenant?key=new") {
				t.Errorf("the forgotten node issued %s", bizType)
			}
		}
	}
	forgotten.Kill()
	b.Stop()
}

// A node that wakes issues the numbers that it has in hand, but none under an Idempotency-Key: nobody would
// find the answer again.
func TestMovedStoreKeepsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*testing.T, ...string) movable{"postgres": movablePostgres, "mysql": movableMySQL, "mongo": movableMongo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKeepsNoAnswer(t, source(t), movableBolt(t))
		})
	}
}

func testKeepsNoAnswer(t *testing.T, from, to movable) {
	forgotten := node.StartReady(t, t.TempDir(), from.env...)
	for range 3 {
		if status, body := forgotten.Status("/seq/local"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	known := once(t, forgotten, "known", "local")
	forgotten.Pause()
	moved(t, 0, "moved to", "move", "--from", from.file, "--to", to.file)
	forgotten.Resume()
	request := must.Get(http.NewRequest(http.MethodPost, forgotten.URL+"/seq/local", http.NoBody))(t)
	request.Header.Set("Idempotency-Key", "new")
	answer := must.Get(http.DefaultClient.Do(request))(t)
	text := must.Get(io.ReadAll(answer.Body))(t)
	must.Do(t, answer.Body.Close())
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("under a new key it answers %d %s", answer.StatusCode, text)
	}
	if status, body := forgotten.Status("/seq/local"); status != 200 {
		t.Errorf("what it has in hand: %d %s", status, body)
	}
	forgotten.Kill()
	n := node.StartReady(t, t.TempDir(), to.env...)
	must.Equal(t, once(t, n, "known", "local"), known)
	n.Stop()
}
