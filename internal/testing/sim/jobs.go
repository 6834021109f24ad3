package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
)

// jobBizType is whose numbers jobs of the random load issue. The checker does not look for numbers of
// it that were skipped.
const jobBizType = "guest"

// job is a job that somebody has ordered.
type job struct {
	*World
	bizType string
	count   int
	body    string // of the request
	begun   int64
	ID      string
	State   string
	Done    int
	Node    string
	// StartedAt is when it began, by the clock of its node.
	StartedAt time.Time
}

// send sends a request about jobs to a node, and returns what it answers. The body is the
// Idempotency-Key.
func (w *World) send(ctx context.Context, n load.Node, method, path, body string) (status int, text string) {
	ctx, cancel := context.WithTimeout(ctx, load.LongPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		panic(err) // it is built from constants and answers
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", body)
	}
	resp, err := w.load.HTTP.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(all)
}

// orderJobs orders jobs until ctx ends, and cancels some.
func (w *World) orderJobs(ctx context.Context, d *load.Dice) {
	load.Every(ctx, 15*time.Second, func() {
		r := d.Next()
		j := &job{World: w, bizType: jobBizType, count: 1 + r.IntN(load.Pick(r, []int{100, 20_000, 250_000})), begun: w.journal.Now()}
		j.body = fmt.Sprintf(`{"bizType":%q,"count":%d,"name":"%d"}`, j.bizType, j.count, len(w.ordered))
		w.ordered = append(w.ordered, j)
		if status, text := w.send(ctx, load.Pick(r, w.load.Nodes), http.MethodPost, "/jobs", j.body); status == http.StatusAccepted && r.IntN(5) == 0 {
			_ = json.Unmarshal([]byte(text), j)
			w.send(ctx, load.Pick(r, w.load.Nodes), http.MethodDelete, "/jobs/"+j.ID, "")
		}
	})
}

// awaitJobs waits until all jobs that were ordered have ended, and looks for numbers that somebody
// else got too. A job that was lost is ordered again.
func (w *World) awaitJobs() {
	seen := make(map[int64]string)
	for i, j := range w.ordered {
		text := ""
		for end := time.Now().Add(3 * settle); ; time.Sleep(time.Second) {
			if time.Now().After(end) {
				w.journal.Find("a job of %d numbers does not end: %s", j.count, text)
				break
			}
			status := 0
			if status, text = w.send(context.Background(), w.load.Nodes[i%len(w.load.Nodes)], http.MethodPost, "/jobs", j.body); status != http.StatusAccepted {
				continue
			}
			if _ = json.Unmarshal([]byte(text), j); j.State == "done" || j.State == "failed" || j.State == "cancelled" {
				break
			}
		}
		who, numbers := "job "+strconv.Itoa(i), 0
		if _, text = w.send(context.Background(), w.load.Nodes[(i+1)%len(w.load.Nodes)], http.MethodGet, "/jobs/"+j.ID+"/result?partial=true", ""); strings.HasPrefix(text, "{") {
			w.journal.Find("the result of a job gets %s", text)
			continue
		}
		for line := range strings.FieldsSeq(text) {
			n, _ := strconv.ParseInt(line, 10, 64)
			if other, twice := seen[n]; twice || n == 0 {
				w.journal.Find("%d is a number of %s and of %s", n, other, who)
			}
			seen[n] = who
			numbers++
		}
		if numbers != j.Done || j.State == "done" && numbers != j.count {
			w.journal.Find("%s of %d numbers is %s with %d of them, and its result has %d", who, j.count, j.State, j.Done, numbers)
		}
	}
	w.entries.mu.Lock()
	defer w.entries.mu.Unlock()
	for _, e := range w.entries.all {
		if e.Call == nil || e.Call.BizType != jobBizType || e.Call.Parsed != nil {
			continue
		}
		for _, r := range e.Call.Runs {
			for i := range r.Count {
				if who, twice := seen[r.First+i*r.Step]; twice {
					w.journal.Find("%d is a number of %s and of a call at %s", r.First+i*r.Step, who, e.Call.Node)
				}
			}
		}
	}
}
