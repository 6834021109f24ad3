package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Pools are the pools of worker IDs that programs lease from, and UsualPool how they are made.
var Pools = []string{"fleet", "crew"}

const UsualPool = `{"bitsMachine":2,"ttl":"10s"}`

// Program is a program that leases worker IDs of a pool and makes IDs with them, with times of its
// own clock.
type Program struct {
	Pool, Name string
	// Offset is how far its clock is ahead.
	Offset time.Duration
	// Held is the lease that it has, nil for none.
	Held *Lease

	load   *Load
	leases int
	former []*Lease // that it has, or may have, ended
}

// Lease is a lease of a worker ID: the right to use the times in (After, Until], in ms since the Unix
// epoch.
type Lease struct {
	Worker       int64
	After, Until int64
	Texts        []string // of the lease, the newest last

	number int
	used   int64 // the highest time that may have been used
}

// Program returns a new program.
func (l *Load) Program(pool, name string) *Program { return &Program{Pool: pool, Name: name, load: l} }

// workerAnswer is the answer to a request about worker IDs.
type workerAnswer struct {
	Code         string
	WorkerID     int64
	Lease        string
	After, Until time.Time

	MachineID, LastTimeStamp int64 // for clients of CosId
}

// plain sends a request to a node. The status is 0 if there is no answer, and then the code says why.
func (l *Load) plain(ctx context.Context, n Node, method, path, body string) (status int, a workerAnswer) {
	status, _, text, err := l.sendTo(ctx, n, method, path, body, "")
	if err != nil {
		return 0, workerAnswer{Code: Complaint(err)}
	}
	_ = json.Unmarshal(text, &a) // answers of 204 are empty
	return status, a
}

// SetPool asks a node to make, change or delete a pool, once, and reports whether it has.
func (l *Load) SetPool(ctx context.Context, n Node, pool, method, query, body string) bool {
	status, _ := l.plain(ctx, n, method, "/worker-pools/"+pool+query, body)
	return status/100 == 2 || method == http.MethodDelete && status == http.StatusNotFound
}

// Lease asks a node for a worker ID, once. It returns the code of an error, "" if it got one.
func (p *Program) Lease(ctx context.Context, n Node, wait time.Duration) (code string) {
	status, a := p.load.plain(ctx, n, http.MethodPost, fmt.Sprintf("/workers/%s?wait=%s", p.Pool, wait), fmt.Sprintf(`{"instance":%q}`, p.Name))
	if status != http.StatusCreated {
		return p.told(status, a)
	}
	p.leases++
	p.Held = &Lease{Worker: a.WorkerID, After: a.After.UnixMilli(), Until: a.Until.UnixMilli(), Texts: []string{a.Lease}, number: p.leases}
	return ""
}

// Renew asks a node to renew a lease, by one of its texts, and returns the code of an error.
func (p *Program) Renew(ctx context.Context, n Node, l *Lease, text string) (code string) {
	status, a := p.load.plain(ctx, n, http.MethodPost, "/workers/"+p.Pool+"/"+text, "")
	if status != http.StatusOK {
		return p.told(status, a)
	}
	if a.WorkerID != l.Worker {
		p.load.Journal.Find("%s: worker ID %d was renewed as %d", p.Name, l.Worker, a.WorkerID)
	}
	l.Until = max(l.Until, a.Until.UnixMilli())
	l.Texts = append(l.Texts, a.Lease)
	return ""
}

// Release asks a node to release a lease, by one of its texts, and returns the code of an error. With
// last it says how far the lease was used.
func (p *Program) Release(ctx context.Context, n Node, l *Lease, text string, last bool) (code string) {
	if p.Held == l { // whatever becomes of the request
		p.forget()
	}
	body := ""
	if last {
		body = fmt.Sprintf(`{"last":%q}`, time.UnixMilli(max(l.used, l.After)).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	status, a := p.load.plain(ctx, n, http.MethodDelete, "/workers/"+p.Pool+"/"+text, body)
	return p.told(status, a)
}

// told returns the code of an answer, after it has reported one that a program should not get.
func (p *Program) told(status int, a workerAnswer) string {
	switch a.Code {
	case "lease_lost", "no_machine_id", "unknown_pool", "starting", "stopping", "store_unavailable", "overloaded":
	default:
		if status >= 300 && !p.load.unrestored(status) {
			p.load.Journal.Find("%s: a request for worker IDs gets %d %s", p.Name, status, a.Code)
		}
	}
	return a.Code
}

// unrestored reports whether a node may have refused a token that is not in its store, because that is
// being restored.
func (l *Load) unrestored(status int) bool {
	return status == http.StatusUnauthorized && l.Journal.storeLost()
}

// forget gives up the lease that the program has.
func (p *Program) forget() {
	const kept = 4
	if p.former = append(p.former, p.Held); len(p.former) > kept {
		p.former = p.former[1:]
	}
	p.Held = nil
}

// Use makes IDs with all times that the clock has passed since the last use and that the lease
// covers, and reports whether there were any.
func (p *Program) Use() bool {
	l, now := p.Held, time.Now().Add(p.Offset).UnixMilli()
	if l == nil {
		return false
	}
	from, to := max(l.After, l.used)+1, min(l.Until, now)
	if from > to {
		return false
	}
	l.used = to
	j := p.load.Journal
	j.Write(record.Entry{Use: &record.Use{At: j.Now(), Pool: p.Pool, Worker: l.Worker, Program: p.Name, Lease: l.number, First: from, Last: to}})
	return true
}

// clocks are how far clocks of programs are ahead: one that is far ahead uses all of a lease at once,
// and one that is behind uses it after it has ended.
var clocks = []time.Duration{0, 0, 0, 50 * time.Millisecond, -800 * time.Millisecond, 3 * time.Second, -5 * time.Second, -30 * time.Second, time.Hour}

// runPrograms is a program after another, which lease worker IDs and make IDs with them.
func (l *Load) runPrograms(ctx context.Context, d *Dice) {
	p := l.Program(Pools[d.loop%uint64(len(Pools))], fmt.Sprint("program-", d.loop))
	for ctx.Err() == nil {
		r := d.Next()
		n, roll := Pick(r, l.Nodes), r.IntN(100)
		switch {
		case roll < 4:
			p.Offset = Pick(r, clocks)
		case roll < 12 && len(p.former) > 0:
			p.late(ctx, r, n)
		case p.Held == nil:
			if p.Lease(ctx, n, Pick(r, []time.Duration{0, 0, 3 * time.Second})) == "unknown_pool" {
				l.SetPool(ctx, n, p.Pool, http.MethodPut, "", UsualPool)
			}
		default:
			p.act(ctx, r, n, roll)
		}
		for range r.IntN(6) {
			p.Use()
			Rest(ctx, UpTo(r, 500*time.Millisecond))
		}
	}
}

// act does something with the lease that the program has.
func (p *Program) act(ctx context.Context, r *rand.Rand, n Node, roll int) {
	held := p.Held
	newest, any := held.Texts[len(held.Texts)-1], Pick(r, held.Texts)
	switch {
	case roll < 60:
		if p.Renew(ctx, n, held, newest) == "lease_lost" {
			p.forget()
		}
	case roll < 68: // with a text of before
		if p.Renew(ctx, n, held, any) == "lease_lost" {
			p.forget()
		}
	case roll < 76: // it may not hear the answer
		ctx, cancel := context.WithTimeout(ctx, UpTo(r, 12*time.Millisecond)+1)
		defer cancel()
		p.Renew(ctx, n, held, newest)
	case roll < 82:
		p.Use()
		p.Release(ctx, n, held, newest, true)
	case roll < 85:
		p.Release(ctx, n, held, any, false)
	case roll < 90: // it is killed
		p.forget()
	case roll < 95: // it is paused
		Rest(ctx, UpTo(r, 20*time.Second))
	}
}

// late renews or releases a lease that the program does not use any more.
func (p *Program) late(ctx context.Context, r *rand.Rand, n Node) {
	l := Pick(r, p.former)
	if text := Pick(r, l.Texts); r.IntN(2) == 0 {
		p.Renew(ctx, n, &Lease{Worker: l.Worker, Texts: slices.Clone(l.Texts)}, text)
	} else {
		p.Release(ctx, n, l, text, r.IntN(2) == 0 && text == l.Texts[len(l.Texts)-1])
	}
}

// AwaitWorkers waits until a program with a clock that is right can make IDs with a worker ID of each
// pool, and reports a finding if none can within patience.
func (l *Load) AwaitWorkers(ctx context.Context, patience time.Duration) {
	for _, pool := range Pools {
		p, end := l.Program(pool, "the last one"), time.Now().Add(patience)
		for i := 0; !p.Use() && ctx.Err() == nil; i++ {
			n := l.Nodes[i%len(l.Nodes)]
			if p.Held == nil || time.Now().UnixMilli() > p.Held.Until {
				p.Lease(ctx, n, 5*time.Second)
			} else if p.Renew(ctx, n, p.Held, p.Held.Texts[len(p.Held.Texts)-1]) == "lease_lost" {
				p.Held = nil
			}
			if time.Now().After(end) {
				l.Journal.Find("a program cannot make IDs with worker IDs of %s", pool)
				break
			}
			Rest(ctx, 500*time.Millisecond)
		}
	}
}
