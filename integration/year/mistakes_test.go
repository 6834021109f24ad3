//go:build drill

package year

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// mistakes are what operators do wrong, and what must come of it. The seed draws when: each finds
// three nodes, and leaves them well.
func (y *year) mistakes() []step {
	return []step{
		{"mistake: reload a wrong configuration", y.reloadWrong},
		{"mistake: raise while nodes run", y.raiseBesideNodes},
		{"mistake: restore a snapshot twice", y.restoreTwice},
		{"mistake: delete a token that is in use", y.deleteToken},
		{"mistake: another definition on one node", y.otherDefinition},
		{"mistake: disable a biz type, and enable it", y.disable},
		{"mistake: start a node on the store of before", y.startFormer},
	}
}

// refused runs a command that must fail and name what is wrong.
func (y *year) refused(env []string, why string, args ...string) {
	y.t.Helper()
	if said, code := y.seqd(env, args...); code == 0 || !strings.Contains(said, why) {
		y.t.Errorf("seqd %v exits with %d, and does not say %q: %s", args, code, why, said)
	}
}

// reloadWrong reloads a configuration with an error. Nodes keep the one that they have.
func (y *year) reloadWrong() string {
	failed := y.pager.expect("SeqdReloadFailed")
	addr := y.nodes[1].URL()
	y.configure("shouting")
	y.refused(nil, "log.level", "reload", "--addr", addr)
	y.more(20)
	failed.fired()
	y.configure("info")
	y.do(nil, "reload", "--addr", addr)
	return failed.cleared()
}

// raiseBesideNodes raises a counter that nodes use. One that was not written since a failover could be
// raised beside them.
func (y *year) raiseBesideNodes() string {
	const name = "ledger"
	y.moreNumbers(name, 1, y.load.Journal.Highest())
	y.refused(y.onStore(), "stop every seqd", "raise", "--by", "1000", name)
	return "refused"
}

// restoreTwice restores a snapshot into the store that nodes use, and then twice into empty ones.
func (y *year) restoreTwice() string {
	dir := must.Get(os.MkdirTemp(y.dir, "twice"))(y.t)
	file := filepath.Join(dir, "snapshot")
	y.do(nil, "snapshot", "save", file, "--addr", y.nodes[0].URL())
	restore := []string{"snapshot", "restore", file, "--gapless", "1000"}
	y.refused(y.onStore(), "not empty", restore...)
	empty := func(name string) []string {
		return append([]string{"SEQD_STORE_DRIVER=bolt", "SEQD_STORE_BOLT_PATH=" + filepath.Join(dir, name)}, y.settings...)
	}
	y.do(empty("first.db"), restore...)
	y.refused(empty("second.db"), "--highest", restore...)
	return "refused beside nodes, and into a second store"
}

// deleteToken deletes a token that callers use, by HTTP and on an open connection.
func (y *year) deleteToken() string {
	var made struct{ Secret string }
	must.Do(y.t, json.Unmarshal([]byte(y.do(nil, "tokens", "create", "till", "--scope", "issue:order", "--json")), &made))
	var open *respconn.Conn
	await.Eventually(y.t, "the token can be used by the Redis protocol", func() error {
		conn, err := y.callers.dialRESP(named(y.nodes[1].resp), made.Secret)
		if err == nil {
			open = respconn.New(conn)
		}
		return err
	})
	defer func() { _ = open.Close() }()
	for _, m := range y.nodes {
		await.Eventually(y.t, m.name+" lets it in", func() error { return y.till(m, made.Secret, http.StatusOK) })
	}
	y.do(nil, "tokens", "delete", "till", "--yes")
	for _, m := range y.nodes {
		await.Eventually(y.t, m.name+" refuses it", func() error { return y.till(m, made.Secret, http.StatusUnauthorized) })
	}
	_ = open.SetDeadline(time.Now().Add(await.Patience)) // fails only if it is closed
	if said, err := open.Do("INCR order"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		y.t.Errorf("the open connection answers %v, %v", said, err)
	}
	y.more(20)
	return "401 on all nodes, others noticed nothing"
}

// till takes a number with a token of its own, and returns an error unless the status is right.
func (y *year) till(m *member, secret string, want int) error {
	c := &record.Call{Node: m.name, BizType: "order", Kind: record.Single, Asked: 1, Caller: "till", Start: y.load.Journal.Now()}
	status, body := y.ask(m.URL()+"/seq/order", secret)
	c.End, c.Status = y.load.Journal.Now(), status
	var got struct{ ID, Code string }
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		return fmt.Errorf("%d: %s", status, body)
	}
	c.Code = got.Code
	if status == http.StatusOK {
		c.Runs = c.Runs.AppendNumber(must.Get(strconv.ParseInt(got.ID, 10, 64))(y.t))
	}
	y.load.Journal.Call(c)
	if status != want {
		return fmt.Errorf("%d: %s", status, body)
	}
	return nil
}

// otherDefinition starts a node whose configuration has the offset of the other data centre. The
// store's definition counts.
func (y *year) otherDefinition() string {
	m := y.nodes[2]
	m.stop()
	for _, setting := range m.settings {
		if strings.HasPrefix(setting, "SEQD_BIZTYPES=") {
			m.own = []string{strings.Replace(setting, `"offset":1}`, `"offset":2}`, 1)}
		}
	}
	before := len(m.log.String())
	m.start()
	var got struct{ ID string }
	await.Eventually(y.t, "the node issues", func() error {
		status, body := y.ask(m.URL()+"/seq/"+sharedType, y.callers.secret.Load().(string))
		if status != http.StatusOK {
			return fmt.Errorf("%d: %s", status, body)
		}
		return json.Unmarshal([]byte(body), &got)
	})
	if !strings.HasSuffix(got.ID, "1") {
		y.t.Errorf("a node with another offset in its configuration issues %s", got.ID)
	}
	said := slices.ContainsFunc(strings.Split(m.log.String()[before:], "\n"), func(line string) bool {
		return strings.Contains(line, "the store has another definition") && strings.Contains(line, sharedType)
	})
	if !said {
		y.t.Errorf("the node does not say so: %s", m.tail())
	}
	m.stop()
	m.own = nil
	m.start()
	return "that of the store counts, and the log says so"
}

// disable disables a biz type, and enables it.
func (y *year) disable() string {
	const name = "parcel"
	await.True(y.t, "it is disabled", func() bool { return y.load.Change(y.t.Context(), y.nodes[0], name, http.MethodPost, "/disable", "") })
	for _, m := range y.nodes {
		await.Eventually(y.t, m.name+" refuses it", func() error {
			if status, body := y.ask(m.URL()+"/seq/"+name+"?key=t1", y.callers.secret.Load().(string)); status != http.StatusConflict {
				return fmt.Errorf("it answers %d: %s", status, body)
			}
			return nil
		})
	}
	y.more(20)
	await.True(y.t, "it is enabled", func() bool { return y.load.Change(y.t.Context(), y.nodes[1], name, http.MethodPost, "/enable", "") })
	y.moreNumbers(name+"/t1", 1, y.load.Journal.Highest())
	return "callers of others noticed nothing"
}

// startFormer starts a node with the configuration of before the move. It must end.
func (y *year) startFormer() string {
	env := append(slices.Clone(y.bolt), y.settings...)
	y.refused(append(env, "SEQD_SERVER_ADDR="+testenv.ReserveAddr(y.t)), "was moved to", "serve", "--config", y.file)
	return "it says where the store is now, and ends"
}
