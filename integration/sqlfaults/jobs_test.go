package sqlfaults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// A node is killed in the middle of a job, and another one goes on with it. Nothing is in the result
// twice, and a gapless one has no gap.
func TestJobOfANodeThatIsKilled(t *testing.T) {
	env := []string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL(), "SEQD_SEGMENT_ORDERING=per-node",
		`SEQD_BIZTYPES=[{"name":"coupon"},{"name":"invoice","strategy":"gapless"}]`,
	}
	other := node.StartReady(t, t.TempDir(), env...)
	for _, bizType := range []string{"coupon", "invoice"} {
		const count = 3_000_000
		first := node.StartReady(t, t.TempDir(), env...)
		var job struct {
			ID, State string
			Done      int
		}
		answer := must.Get(first.Do(http.MethodPost, "/jobs", fmt.Sprintf(`{"bizType":%q,"count":%d}`, bizType, count)))(t)
		must.Do(t, json.Unmarshal([]byte(answer.Body), &job))
		state := func() string {
			_, text := other.Status("/jobs/" + job.ID)
			must.Do(t, json.Unmarshal([]byte(text), &job))
			return job.State
		}
		await.True(t, "some numbers are issued", func() bool { return state() == "running" && job.Done > 0 || job.State == "done" })
		first.Kill()
		t.Logf("%s: killed when it was %s after %d numbers", bizType, job.State, job.Done)
		await.True(t, "the job is done", func() bool { return state() == "done" })
		_, text := other.Status("/jobs/" + job.ID + "/result")
		ids := strings.Fields(text)
		last := ids[len(ids)-1]
		slices.Sort(ids)
		must.Equal(t, len(slices.Compact(ids)), count, "distinct numbers")
		if bizType == "invoice" {
			must.Equal(t, last, fmt.Sprint(count), "the last number of a result without a gap")
		}
	}
}

// A job of codes gets done although the node that runs it is killed again and again. Its result is
// complete, and has nothing twice. The log says how fast it was, and how fast the result is downloaded
// beside seqd generate, which issues as many.
func TestCodesWhileNodesAreKilled(t *testing.T) {
	longtest.Only(t)
	const count, digits = 1_000_000, 9
	env := []string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL(), "SEQD_SEGMENT_ORDERING=per-node", "SEQD_SEGMENT_MAXSTEP=1000000",
		fmt.Sprintf(`SEQD_BIZTYPES=[{"name":"coupon","plugins":[{"name":"obfuscate","digits":%d,"key":"a key of a test, known to all"},{"name":"format","template":"C{seq:0%d}-{check}","check":"damm"}]}]`, digits, digits),
	}
	nodes := []*node.Node{node.StartReady(t, t.TempDir(), env...), node.StartReady(t, t.TempDir(), env...)}
	var job struct {
		ID, State string
		Done      int
	}
	answer := must.Get(nodes[0].Do(http.MethodPost, "/jobs", fmt.Sprintf(`{"bizType":"coupon","count":%d}`, count)))(t)
	must.Do(t, json.Unmarshal([]byte(answer.Body), &job))
	look := func() {
		_, text := nodes[1].Status("/jobs/" + job.ID)
		must.Do(t, json.Unmarshal([]byte(text), &job))
	}
	began, kills := time.Now(), 0
	for job.State != "done" {
		from := job.Done
		await.True(t, "the job goes on", func() bool { look(); return job.Done >= from+count/8 || job.State == "done" })
		if job.State != "done" { // whichever runs it
			nodes[kills%2].Kill()
			nodes[kills%2] = node.StartReady(t, t.TempDir(), env...)
			kills++
		}
	}
	t.Logf("%d codes in %v, with %d kills", count, time.Since(began).Round(time.Second), kills)

	dir := t.TempDir()
	run := func(args ...string) time.Duration {
		began := time.Now()
		output, code := node.Command(t, dir, nil, append(args, "--addr", nodes[1].URL)...)
		if code != 0 {
			t.Fatalf("seqd %v ended with %d: %s", args, code, output)
		}
		return time.Since(began).Round(time.Millisecond)
	}
	t.Logf("downloaded in %v; seqd generate takes %v", run("jobs", "download", job.ID, "-o", "codes"), run("generate", "coupon", "--count", strconv.Itoa(count), "-o", "more"))

	var seen [1_000_000_000 / 64]uint64
	file := must.Get(os.Open(filepath.Join(dir, "codes")))(t)
	defer file.Close()
	lines := 0
	for all := bufio.NewScanner(file); all.Scan(); lines++ {
		n := must.Get(strconv.Atoi(all.Text()[1 : 1+digits]))(t)
		if seen[n/64]>>(n%64)&1 != 0 {
			t.Errorf("%s is there twice", all.Text())
		}
		seen[n/64] |= 1 << (n % 64)
	}
	must.Equal(t, lines, count, "codes")
}
