package sqlfaults

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
