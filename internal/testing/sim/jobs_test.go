package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// job is a job that a script has ordered.
type job struct {
	*World
	bizType string
	count   int
	begun   int64
	ID      string
	State   string
	Done    int
	Node    string
	// StartedAt is when it began, by the clock of its node.
	StartedAt time.Time
}

// small are the settings of a biz type of which a job gets 98 numbers at a time.
var small = load.Settings{"plugins": []load.Settings{{"name": "rate-limit", "rate": 1000, "burst": 100, "per": "number"}}}

// orders lets a node make a job that begins as soon as it may.
func (w *World) orders(node, bizType string, count int) *job {
	return w.ordersAt(node, bizType, count, time.Now())
}

func (w *World) ordersAt(node, bizType string, count int, at time.Time) *job {
	j := &job{World: w, bizType: bizType, count: count, begun: w.journal.Now()}
	for end := time.Now().Add(patience); j.ID == ""; time.Sleep(20 * time.Millisecond) {
		status, text := w.send(context.Background(), w.named(node), http.MethodPost, "/jobs", fmt.Sprintf(`{"bizType":%q,"count":%d,"at":%q}`, bizType, count, at.UTC().Format(time.RFC3339)))
		if status == http.StatusAccepted {
			_ = json.Unmarshal([]byte(text), j)
		} else if time.Now().After(end) {
			w.journal.Find("%s makes no job: %s", node, text)
			break
		}
	}
	return j
}

// becomes waits until a job is in a state.
func (j *job) becomes(node, state string) {
	text := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, text = j.send(context.Background(), j.named(node), http.MethodGet, "/jobs/"+j.ID, ""); json.Unmarshal([]byte(text), j) == nil && j.State == state {
			return
		}
	}
	j.journal.Find("the job is never %s: %s", state, text)
}

// result waits until a job is done, and records its numbers: the checker compares them with all that
// callers got.
func (j *job) result(node string) {
	j.becomes(node, "done")
	status, text := j.send(context.Background(), j.named(node), http.MethodGet, "/jobs/"+j.ID+"/result", "")
	c := &record.Call{Start: j.begun, End: j.journal.Now(), Node: node, BizType: j.bizType, Kind: record.Job, Asked: j.count, Status: status}
	var numbers []int64
	for line := range strings.FieldsSeq(text) {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			j.journal.Find("the result of a job is not numbers: %.100s", text)
			return
		}
		numbers, c.Runs = append(numbers, n), c.Runs.AppendNumber(n)
	}
	j.journal.Call(c)
	distinct := slices.Compact(slices.Sorted(slices.Values(numbers)))
	if len(distinct) != j.count || len(numbers) != j.count {
		j.journal.Find("the result of a job has %d numbers, %d of them distinct, and not %d", len(numbers), len(distinct), j.count)
	}
	if n := len(distinct); j.bizType == "bill" && n > 0 && distinct[n-1]-distinct[0] != int64(n-1) {
		j.journal.Find("the result of a job without gaps has %d numbers from %d to %d", n, distinct[0], distinct[n-1])
	}
}

// Another node goes on with a job at most 4.5 s after its node was killed, whenever that is.
func TestTakeover(t *testing.T) {
	inWorld(t, map[string]load.Settings{"order": small}, nil, func(t *testing.T, w *World) {
		j := w.orders("a", "order", 500_000)
		j.becomes("b", "running")
		var all []time.Duration
		for i := range 10 {
			time.Sleep(10*time.Second + time.Duration(i)*107*time.Millisecond)
			j.becomes("a", "running")
			owner := w.named(j.on())
			was, since, other := *j, time.Now(), w.nodes[(slices.Index(w.nodes, owner)+1)%len(w.nodes)].name
			for owner.kill(false); j.Node == was.Node || j.Done <= was.Done+100; time.Sleep(10 * time.Millisecond) {
				j.becomes(other, "running")
			}
			all = append(all, time.Since(since))
			owner.start()
			w.awaitReady("after the kill")
		}
		if slices.Sort(all); all[len(all)-1] > 4500*time.Millisecond {
			t.Error("it takes too long until another node goes on")
		}
		t.Log("another node goes on after", all)
	})
}

// on returns the name of the node that issues for a job.
func (j *job) on() (name string) {
	j.each(func(node string) {
		if _, text := j.send(context.Background(), j.named(node), http.MethodGet, "/nodes", ""); strings.Contains(text, fmt.Sprintf(`{"id":%q,"self":true`, j.Node)) {
			name = node
		}
	})
	return name
}

// jobTemptations are what would happen without the rules of jobs.
var jobTemptations = []schedule{
	{
		name: "the reply to what a job wrote is lost", was: "The numbers were in the result twice.",
		rules: []string{"job-counted"},
		world: Options{BizTypes: map[string]load.Settings{"order": small}, Script: func(w *World) {
			time.Sleep(10 * time.Second)
			w.meet("a", "update document job/", append(make([]storesim.Fate, 15), storesim.Fate{End: storesim.ReplyLost}, storesim.Fate{}, storesim.Fate{End: storesim.ReplyLost})...)
			j := w.orders("a", "order", 2000)
			w.issue("b", "order", 5)
			j.result("b")
		}},
	},
	{
		name: "a node is killed while a job writes", was: "Numbers of a chunk were in the result twice, or missing.",
		world: Options{BizTypes: map[string]load.Settings{"order": small, "bill": small}, Script: func(w *World) {
			// Of order the write always arrives: the checker knows no reason to skip a chunk.
			for i, bizType := range []string{"order", "bill", "order", "bill"} {
				time.Sleep(10 * time.Second)
				w.meet("a", "update document job/", append(make([]storesim.Fate, 14), storesim.Fate{Send: 2 * time.Second, Left: i < 3})...)
				j := w.orders("a", bizType, 1000+i)
				w.met("a")
				w.named("a").kill(false)
				if bizType == "order" {
					w.issue("b", bizType, 5)
				}
				j.result("c")
				w.named("a").start()
				w.awaitReady("after the kill")
			}
		}},
	},
	{
		name: "an owner that is cut off issues for a job", was: "What it issued was in the result beside what the next owner had issued.",
		world: Options{BizTypes: map[string]load.Settings{"order": small}, Script: func(w *World) {
			time.Sleep(10 * time.Second)
			j := w.orders("a", "order", 20_000)
			j.becomes("b", "running")
			w.cutOffStore("a", 20*time.Second, func() { time.Sleep(10 * time.Second); w.issue("b", "order", 5) })
			j.result("a")
		}},
	},
	{
		name: "jobs that wait", was: "A later job began first, or more jobs ran at once than may.",
		rules: []string{"job-order", "permits-bounded"},
		world: Options{BizTypes: map[string]load.Settings{"order": small}, Settings: map[string]string{"SEQD_JOBS_ATONCE": "1"}, Script: func(w *World) {
			time.Sleep(10 * time.Second)
			due := time.Now().Add(10 * time.Second)
			var jobs []*job
			for i := range 4 { // the later one is made first
				jobs = append(jobs, w.ordersAt(nodeNames[i%3], "order", 1500, due.Add(time.Duration(4-i)*time.Second)))
			}
			slices.Reverse(jobs)
			for ended := 0; ended < len(jobs); time.Sleep(100 * time.Millisecond) {
				running := 0
				ended = 0
				for _, j := range jobs {
					_, text := w.send(context.Background(), w.named("b"), http.MethodGet, "/jobs/"+j.ID, "")
					_ = json.Unmarshal([]byte(text), j)
					switch j.State {
					case "running":
						running++
					case "done":
						ended++
					}
				}
				if running > 1 {
					w.journal.Find("%d jobs run at once", running)
				}
				if time.Since(due) > patience {
					w.journal.Find("only %d jobs end", ended)
					return
				}
			}
			for i, j := range jobs {
				if j.result("c"); i > 0 && j.StartedAt.Before(jobs[i-1].StartedAt) {
					w.journal.Find("a job that is due later began at %v, and the one before it at %v", j.StartedAt, jobs[i-1].StartedAt)
				}
			}
		}},
	},
	{
		name: "a biz type shows numbers in another way", was: "The result of a job was shown in two ways.",
		rules: []string{"job-pinned"},
		world: Options{BizTypes: map[string]load.Settings{"order": small}, Script: func(w *World) {
			time.Sleep(10 * time.Second)
			j := w.orders("a", "order", 20_000)
			j.becomes("b", "running")
			time.Sleep(3 * time.Second)
			plugins := `{"plugins":[{"name":"rate-limit","rate":1000,"burst":100,"per":"number"},{"name":"format","template":"N{seq}"}]}`
			if status, text := w.send(context.Background(), w.named("b"), http.MethodPatch, "/biz-types/order", plugins); status != http.StatusConflict {
				w.journal.Find("a change that makes a result unreadable gets %d %s", status, text)
			}
			if status, text := w.send(context.Background(), w.named("b"), http.MethodPatch, "/biz-types/order?force=true", plugins); status != http.StatusOK {
				w.journal.Find("a change by force gets %d %s", status, text)
			}
			j.becomes("b", "failed")
			if status, text := w.send(context.Background(), w.named("c"), http.MethodGet, "/jobs/"+j.ID+"/result?partial=true", ""); status != http.StatusConflict {
				w.journal.Find("a result that cannot be shown gets %d %.200s", status, text)
			}
		}},
	},
}
