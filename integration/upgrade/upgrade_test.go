// Package upgrade tests that nodes of the last release and of this version go on with each other's
// numbers: one after the other on a file, and beside each other on a shared store. scripts/last-release
// says which release that is.
package upgrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

const bizTypes = `SEQD_BIZTYPES=[{"name":"order","step":10},{"name":"user","strategy":"snowflake"},{"name":"invoice","strategy":"gapless","keyed":true}]`

// unknown is how scripts/last-release exits if it cannot say what the last release is.
const unknown = 3

// released returns the program of the last release.
func released(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("../../scripts/last-release")
	var why bytes.Buffer
	cmd.Stderr = &why
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == unknown {
		t.Skip("NOT CHECKED: ", why.String())
	}
	if err != nil {
		t.Fatalf("the last release is not built: %v: %s", err, why.String())
	}
	return strings.TrimSpace(string(out))
}

// ledger is what callers got of all biz types, whichever node issued it.
type ledger map[string]*ordercheck.Record

// take takes some numbers of each biz type from a node, and records them under who.
func (l ledger) take(t *testing.T, n *node.Node, who string) {
	t.Helper()
	for bizType, query := range map[string]string{"order": "count=25", "user": "count=5", "invoice": "count=3&key=acme"} {
		if l[bizType] == nil {
			l[bizType] = ordercheck.New()
		}
		began := l[bizType].Now()
		answer := must.Get(n.Do(http.MethodPost, "/seq/"+bizType+"?"+query, ""))(t)
		var got struct{ IDs []json.Number }
		if answer.Status != http.StatusOK || json.Unmarshal([]byte(answer.Body), &got) != nil {
			t.Fatalf("%s answers %s with %d: %s", who, bizType, answer.Status, answer.Body)
		}
		var numbers []int64
		for _, id := range got.IDs {
			numbers = append(numbers, must.Get(id.Int64())(t))
		}
		l[bizType].Add(began, who, numbers)
	}
}

// check finds what was issued twice, what is out of order on one node or in strict order, and gaps of
// the gapless biz type.
func (l ledger) check(t *testing.T) {
	t.Helper()
	must.Report(t, l["order"].Check())
	must.Report(t, l["user"].Duplicates())
	must.Report(t, l["invoice"].Check())
	must.Equal(t, int64(l["invoice"].Numbers()), l["invoice"].Highest(), "gapless numbers, without a gap")
}

// One node after the other has the file: the last release, this version, the last release again, and
// this version after a kill. An answer is repeated across versions.
func TestOnAFile(t *testing.T) {
	t.Parallel()
	program, dir, issued := released(t), t.TempDir(), ledger{}
	var first string
	for i, start := range []func() *node.Node{
		func() *node.Node { return node.StartProgram(t, program, dir, bizTypes) },
		func() *node.Node { return node.StartReady(t, dir, bizTypes) },
	} {
		for round := range 2 {
			n := start()
			issued.take(t, n, fmt.Sprintf("program %d, round %d", i, round))
			answer := must.Get(n.Do(http.MethodPost, "/seq/order", "", "Idempotency-Key", "once"))(t)
			if first == "" {
				first = answer.Body
			}
			must.Equal(t, answer.Body, first, "the answer to one Idempotency-Key")
			if round == 0 {
				n.Stop()
			} else {
				n.Kill()
			}
		}
	}
	n := node.StartProgram(t, program, dir, bizTypes) // back
	issued.take(t, n, "the last release again")
	n.Stop()
	issued.check(t)
}

var build = regexp.MustCompile(`(?m)^seqd_build_info\{.*version="([^"]*)"\} 1$`)

// Two nodes share a PostgreSQL. Each is upgraded while the other one has load, and one goes back.
func TestRolls(t *testing.T) {
	t.Parallel()
	program, issued := released(t), ledger{}
	env := append(fleet.Postgres(t), bizTypes, "SEQD_SERVER_ADDR="+testenv.ReserveAddr(t))
	other := slices.Concat(env, []string{"SEQD_SERVER_ADDR=" + testenv.ReserveAddr(t)})
	dirs := []string{t.TempDir(), t.TempDir()}
	nodes := []*node.Node{node.StartProgram(t, program, dirs[0], env...), node.StartProgram(t, program, dirs[1], other...)}
	history := ordercheck.New()
	// replace replaces a node while the other one has load.
	replace := func(i int, start func() *node.Node) {
		traffic := node.StartTraffic(nodes[1-i], "order", history, fmt.Sprint("beside ", i), node.Pace{Callers: 2, Pause: 5 * time.Millisecond, Largest: 20})
		traffic.More(t, 100)
		nodes[i].Stop()
		nodes[i] = start()
		for j, n := range nodes {
			issued.take(t, n, fmt.Sprintf("node %d after node %d was replaced", j, i))
		}
		traffic.More(t, 100)
		traffic.Stop()
		must.Equal(t, len(traffic.Failures()), 0, "kinds of failures")
	}
	version := func(n *node.Node) string {
		_, text := n.Status("/metrics")
		found := build.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no seqd_build_info in %s", text)
		}
		return found[1]
	}
	must.Equal(t, version(nodes[0]), version(nodes[1]), "the version of two nodes of one release")
	replace(0, func() *node.Node { return node.StartReady(t, dirs[0], env...) })
	if is := version(nodes[0]); is == version(nodes[1]) {
		t.Errorf("both nodes say %s: the alert SeqdVersionMix does not see this mix", is)
	}
	replace(1, func() *node.Node { return node.StartReady(t, dirs[1], other...) })
	replace(0, func() *node.Node { return node.StartProgram(t, program, dirs[0], env...) })
	for _, n := range nodes {
		n.Stop()
	}
	for bizType, record := range issued {
		if bizType == "order" {
			record.Each(history.AddCall)
		}
	}
	issued.check(t)
	must.Report(t, history.Duplicates())
}
