//go:build coordination

package coordination

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestNodesOnConsul(t *testing.T) { nodesOn(t, "consul", testenv.StartConsul(t)) }

func TestNodesOnZooKeeper(t *testing.T) { nodesOn(t, "zookeeper", testenv.StartZooKeeper(t, 1)[0]) }

// Jobs are done while the coordinator is paused, killed and cut off, and one node as well; single
// numbers are issued all the time. Nothing comes twice.
func nodesOn(t *testing.T, driver string, c *testenv.Coordinator) {
	link := testenv.NewLink(t, c.Addr())
	env := []string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL(), "SEQD_SEGMENT_ORDERING=per-node",
		"SEQD_COORDINATION_DRIVER=" + driver, "SEQD_COORDINATION_ADDRS=" + link.Addr(), `SEQD_BIZTYPES=[{"name":"coupon"}]`,
	}
	one, two := node.StartReady(t, t.TempDir(), env...), node.StartReady(t, t.TempDir(), env...)
	ready := func() {
		t.Helper()
		await.True(t, "both have a session", func() bool {
			_, first := one.Status("/readyz")
			_, second := two.Status("/readyz")
			return strings.Contains(first, `"ready"`) && strings.Contains(second, `"ready"`)
		})
	}
	ready()
	await.Eventually(t, "the doctor finds it", func() error { // which waits for half a second
		report, code := node.Command(t, t.TempDir(), env, "doctor")
		if !strings.Contains(report, "coordination "+link.Addr()+": "+driver+" answers in") {
			return fmt.Errorf("%d: %s", code, report)
		}
		return nil
	})

	seen := make(map[int64]bool)
	note := func(numbers []int64) {
		for _, n := range numbers {
			if seen[n] {
				t.Errorf("%d came twice", n)
			}
			seen[n] = true
		}
	}
	issues := func() {
		for _, n := range []*node.Node{one, two} {
			note(must.Get(n.Take("coupon", 100))(t))
		}
	}
	const count = 1_000_000
	for name, fault := range map[string]struct{ begin, end func() }{
		"paused": {c.Pause, c.Resume}, "killed": {c.Kill, c.Start}, "cut off": {link.Cut, link.Restore}, "hangs": {link.Hang, link.Resume},
	} {
		var job struct {
			ID, State string
			Done      int
		}
		answer := must.Get(one.Do(http.MethodPost, "/jobs", fmt.Sprintf(`{"bizType":"coupon","count":%d}`, count)))(t)
		must.Do(t, json.Unmarshal([]byte(answer.Body), &job))
		state := func() string {
			_, text := two.Status("/jobs/" + job.ID)
			must.Do(t, json.Unmarshal([]byte(text), &job))
			return job.State
		}
		fault.begin()
		issues()
		for _, n := range []*node.Node{one, two} {
			await.True(t, "it says that its coordinator is away: "+name, func() bool {
				code, text := n.Status("/readyz")
				_, metrics := n.Status("/metrics")
				alive, _ := n.Status("/healthz")
				return code == 200 && alive == 200 && strings.Contains(text, `"coordinator":{"code":"no_coordinator"`) && strings.Contains(metrics, `seqd_backend_up{backend="coordinator"} 0`)
			})
		}
		issues()
		fault.end()
		await.True(t, "the job is done: "+name, func() bool { return state() == "done" })
		_, text := two.Status("/jobs/" + job.ID + "/result")
		var numbers []int64
		for line := range strings.Lines(text) {
			var n int64
			must.Get(fmt.Sscan(line, &n))(t)
			numbers = append(numbers, n)
		}
		must.Equal(t, len(numbers), count, "numbers of the job: "+name)
		note(numbers)
		issues()
		ready()
	}

	// a node is killed in the middle of a job, and the other one goes on
	answer := must.Get(one.Do(http.MethodPost, "/jobs", fmt.Sprintf(`{"bizType":"coupon","count":%d}`, 3*count)))(t)
	var job struct{ ID, State string }
	must.Do(t, json.Unmarshal([]byte(answer.Body), &job))
	await.True(t, "the job runs", func() bool {
		_, text := two.Status("/jobs/" + job.ID)
		return !strings.Contains(text, `"queued"`)
	})
	one.Kill()
	await.True(t, "the job is done", func() bool {
		_, text := two.Status("/jobs/" + job.ID)
		return strings.Contains(text, `"state":"done"`)
	})
	_, text := two.Status("/jobs/" + job.ID + "/result")
	lines := strings.Fields(text)
	slices.Sort(lines)
	must.Equal(t, len(slices.Compact(lines)), 3*count, "distinct numbers")
}

func TestMachineIDsOnConsul(t *testing.T) { machineIDsOn(t, "consul", testenv.StartConsul(t)) }

func TestMachineIDsOnZooKeeper(t *testing.T) {
	machineIDsOn(t, "zookeeper", testenv.StartZooKeeper(t, 1)[0])
}

// Nodes lease machine IDs in a coordinator that is paused and killed, and an operator says restored.
// Nothing comes twice.
func machineIDsOn(t *testing.T, driver string, c *testenv.Coordinator) {
	env := []string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL(), "SEQD_COORDINATION_DRIVER=" + driver,
		"SEQD_COORDINATION_ADDRS=" + c.Addr(), `SEQD_BIZTYPES=[{"name":"user","strategy":"snowflake"}]`, "SEQD_SNOWFLAKE_REGISTRY=coordinator",
	}
	one, two := node.StartReady(t, t.TempDir(), env...), node.StartReady(t, t.TempDir(), env...)
	seen := make(map[int64]bool)
	issue := func() {
		t.Helper()
		for _, n := range []*node.Node{one, two} {
			var numbers []int64
			await.Eventually(t, "it issues", func() (err error) {
				numbers, err = n.Take("user", 1000)
				return err
			})
			for _, number := range numbers {
				if seen[number] {
					t.Errorf("%d came twice", number)
				}
				seen[number] = true
			}
		}
	}
	issue()
	for _, fault := range []struct{ begin, end func() }{{c.Pause, c.Resume}, {c.Kill, c.Start}} {
		fault.begin()
		await.True(t, "the lease ends", func() bool {
			code, _ := one.Status("/seq/user")
			return code == http.StatusServiceUnavailable
		})
		fault.end()
		issue()
	}
	report, code := node.Command(t, t.TempDir(), env, "doctor")
	must.Equal(t, strings.Contains(report, "issues nothing"), false, fmt.Sprint(code, report))
	report, code = node.Command(t, t.TempDir(), env, "restored")
	must.Equal(t, code == 0 && strings.Contains(report, "leases that are granted from now on begin at"), true, fmt.Sprint(code, report))
	issue()

	// the doctor of a node with another prefix says that it would issue nothing
	report, _ = node.Command(t, t.TempDir(), append(env, "SEQD_COORDINATION_PREFIX=other"), "doctor")
	must.Equal(t, strings.Contains(report, "issues nothing") && strings.Contains(report, driver+", keys seqd/"), true, report)
}
