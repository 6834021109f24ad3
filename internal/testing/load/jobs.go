package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// jobCounts are the most numbers that jobs issue, by biz type. Some take several chunks; of a biz type
// that skips nothing otherwise they are small, or the checker would excuse too much.
var jobCounts = map[string][]int{
	"guest": {100, 20_000, 250_000}, "huge": {100, 20_000, 250_000}, "ledger": {100, 5_000}, "bill": {50, 2_000},
}

// ordered is a job that somebody has ordered.
type ordered struct {
	bizType string
	count   int
	body    string // of the request, and its Idempotency-Key
	begun   int64
	made    bool // a node may have made it

	ID    string
	State string
	Done  int
}

// orderJobs orders jobs, and cancels some.
func (l *Load) orderJobs(ctx context.Context, d *Dice) {
	names := []string{"bill", "guest", "huge", "ledger"}
	Every(ctx, 15*time.Second, func() {
		r := d.Next()
		j := &ordered{bizType: Pick(r, names), begun: l.Journal.Now()}
		j.count = 1 + r.IntN(Pick(r, jobCounts[j.bizType]))
		j.body = fmt.Sprintf(`{"bizType":%q,"count":%d,"name":"%d"}`, j.bizType, j.count, len(l.jobs))
		l.jobs = append(l.jobs, j)
		if l.order(ctx, Pick(r, l.Nodes), j) && r.IntN(5) == 0 {
			l.Raw(ctx, Pick(r, l.Nodes), http.MethodDelete, "/jobs/"+j.ID, "")
		}
	})
}

// Raw sends a request to a node, and returns what it answers. The body is the Idempotency-Key.
func (l *Load) Raw(ctx context.Context, n Node, method, path, body string) (status int, header http.Header, text string) {
	status, header, all, err := l.sendTo(ctx, n, method, path, body, body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return status, header, string(all)
}

// order orders a job, or finds out how far it is. One that the store has lost is made again: numbers
// that it has issued are in no result then.
func (l *Load) order(ctx context.Context, n Node, j *ordered) (made bool) {
	status, header, text := l.Raw(ctx, n, http.MethodPost, "/jobs", j.body)
	if status != 0 && status != http.StatusAccepted && status < 500 {
		return false
	}
	if status == http.StatusAccepted {
		_ = json.Unmarshal([]byte(text), j)
		if j.made && header.Get("Idempotent-Replayed") == "" {
			l.unheard(j)
		}
	}
	j.made = true
	return status == http.StatusAccepted
}

// unheard records that numbers of a job may be issued that nobody gets.
func (l *Load) unheard(j *ordered) {
	l.Journal.Call(&record.Call{Start: j.begun, End: l.Journal.Now(), BizType: j.bizType, Kind: record.Job, Asked: j.count})
}

// AwaitJobs waits until all jobs that were ordered have ended, and records their numbers.
func (l *Load) AwaitJobs(ctx context.Context, patience time.Duration) {
	for i, j := range l.jobs {
		node := func(n int) Node { return l.Nodes[(i+n)%len(l.Nodes)] }
		j.State = ""
		for end := time.Now().Add(patience); j.State != "done" && j.State != "failed" && j.State != "cancelled"; Rest(ctx, time.Second) {
			if time.Now().After(end) || ctx.Err() != nil {
				l.Journal.Find("a job of %d numbers of %s does not end: it is %s with %d", j.count, j.bizType, j.State, j.Done)
				break
			}
			l.order(ctx, node(0), j)
		}
		if j.State != "done" {
			l.unheard(j)
		}
		l.download(ctx, j, node)
	}
}

// download records the numbers of a job that has ended, as each node shows them.
func (l *Load) download(ctx context.Context, j *ordered, node func(int) Node) {
	const path = "/jobs/%s/result?partial=true"
	status, _, text := l.Raw(ctx, node(1), http.MethodGet, fmt.Sprintf(path, j.ID), "")
	if _, _, other := l.Raw(ctx, node(2), http.MethodGet, fmt.Sprintf(path, j.ID), ""); other != text {
		l.Journal.Find("two nodes show the result of a job of %s differently: %.100q and %.100q", j.bizType, text, other)
	}
	c := &record.Call{Start: j.begun, End: l.Journal.Now(), Node: node(1).Name(), BizType: j.bizType, Kind: record.Job, Asked: j.count, Status: status}
	lines := strings.Fields(text)
	if status != http.StatusOK || len(lines) != j.Done || j.State == "done" && j.Done != j.count {
		l.Journal.Find("a job of %d numbers of %s is %s with %d of them, and its result has %d: %d %.100q", j.count, j.bizType, j.State, j.Done, len(lines), status, text)
		return
	}
	r := request{shape: l.Shape(j.bizType), count: len(lines)}
	r.readIDs(c, lines)
	l.Journal.Call(c)
}
