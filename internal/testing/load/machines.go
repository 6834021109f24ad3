package load

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// MachinePool is the pool of clients of CosId, and machinePool how it is made.
const (
	MachinePool = "machines"
	machinePool = `{"bitsMachine":1,"ttl":"30s"}`
)

const (
	// machineGuard is how long a client leases a machine ID for.
	machineGuard = 20 * time.Second
	// machineSkew is how far the clocks of a node and of its store can be off together, and more.
	machineSkew = 5 * time.Second
)

// ask sends a request of CosId's protocol for a machine ID, and returns its answer.
func (p *Program) ask(ctx context.Context, n Node, method, more string) (status int, a workerAnswer) {
	return p.load.plain(ctx, n, method, fmt.Sprintf("/machines/%s?instanceId=%s&stable=false%s", p.Pool, p.Name, more), "")
}

// Distribute asks a node for a machine ID, once, as a client that has just started. It returns the code
// of an error, "" if it got one. Unlike clients of CosId it uses it only while it knows that it is leased.
func (p *Program) Distribute(ctx context.Context, n Node) (code string) {
	began := time.Now()
	if l := p.Held; l != nil {
		p.former, p.Held = []*Lease{l}, nil
	}
	status, a := p.ask(ctx, n, http.MethodPost, fmt.Sprintf("&machineBit=1&safeGuardDuration=PT%dS", machineGuard/time.Second))
	if status != http.StatusOK {
		switch a.Code {
		case "404":
			p.load.SetPool(ctx, n, p.Pool, http.MethodPut, "", machinePool)
		case "503", "M-01":
		default:
			if status != 0 && !p.load.unrestored(status) {
				p.load.Journal.Find("%s: a request for a machine ID gets %d %s", p.Name, status, a.Code)
			}
		}
		return a.Code
	}
	p.leases++
	p.Held = &Lease{Worker: a.MachineID, After: a.LastTimeStamp - 1, Until: began.Add(machineGuard - machineSkew).UnixMilli(), number: p.leases}
	if len(p.former) > 0 { // the clock did not go back meanwhile
		p.Held.used = p.former[0].used
	}
	return ""
}

// Guard asks a node to extend the lease, once.
func (p *Program) Guard(ctx context.Context, n Node) {
	began := time.Now()
	switch status, a := p.ask(ctx, n, http.MethodPatch, fmt.Sprintf("&safeGuardDuration=PT%dS", machineGuard/time.Second)); {
	case status == http.StatusOK:
		p.Held.Until = max(p.Held.Until, began.Add(machineGuard-machineSkew).UnixMilli())
	case status != 0 && status != http.StatusServiceUnavailable && status != http.StatusNotFound && a.Code != "M-03" && !p.load.unrestored(status):
		p.load.Journal.Find("%s: a guard gets %d %s", p.Name, status, a.Code)
	}
}

// runMachines is a client of CosId that is started again and again.
func (l *Load) runMachines(ctx context.Context, d *Dice) {
	p := l.Program(MachinePool, fmt.Sprint("machine-", d.loop))
	for ctx.Err() == nil {
		r := d.Next()
		n, roll := Pick(r, l.Nodes), r.IntN(100)
		switch {
		case p.Held == nil || p.Held.Until < time.Now().UnixMilli() || roll < 10:
			p.Distribute(ctx, n)
		case roll < 80:
			p.Guard(ctx, n)
		case roll < 85: // it goes on
			p.ask(ctx, n, http.MethodDelete, "")
		case roll < 90: // it is paused
			Rest(ctx, UpTo(r, 30*time.Second))
		}
		for range r.IntN(6) {
			p.Use()
			Rest(ctx, UpTo(r, 700*time.Millisecond))
		}
	}
}

// AwaitMachines waits until a client of CosId gets a machine ID, or is told that others hold all, and
// reports a finding if none does within patience.
func (l *Load) AwaitMachines(ctx context.Context, patience time.Duration) {
	p, end := l.Program(MachinePool, "the-last-one"), time.Now().Add(patience)
	for i := 0; ; i++ {
		code := p.Distribute(ctx, l.Nodes[i%len(l.Nodes)])
		if code == "" || code == "M-01" {
			return
		}
		if time.Now().After(end) {
			l.Journal.Find("a client of CosId gets no machine ID: %s", code)
			return
		}
		Rest(ctx, 500*time.Millisecond)
	}
}
