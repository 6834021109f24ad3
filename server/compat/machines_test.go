package compat_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
)

// machineNodes returns two nodes of one store, and what sets their clocks ahead. They have the pool
// fleet of two machine IDs, whose leases can begin.
func machineNodes(t *testing.T) (a, b *node, pass func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	pass = func(d time.Duration) { ahead.Add(int64(d)) }
	s := setup{store: sharedStore{memory.New(now)}, now: now, yaml: "bizTypes: [{name: other}]\n"}
	a, b = newNode(t, s), newNode(t, s)
	const fleet = `{"bitsMachine":1,"epoch":"2019-12-24T16:00:00.000Z","ttl":"5m"}`
	if answer := a.do("PUT", "/worker-pools/fleet", fleet, "Content-Type", "application/json"); answer.status != 201 {
		t.Fatalf("make a pool: %d %s", answer.status, answer.body)
	}
	pass(6 * time.Minute)
	return a, b, pass
}

const guard = "stable=false&safeGuardDuration=PT5M&instanceId="

// machine is what the client reads.
type machine struct{ MachineID, LastTimeStamp int64 }

func (n *node) distribute(instance string) (m machine) {
	n.t.Helper()
	a := n.do("POST", "/machines/fleet?machineBit=1&"+guard+url.QueryEscape(instance), "")
	if err := json.Unmarshal([]byte(a.body), &m); err != nil || a.status != 200 || a.contentType != jsonType {
		n.t.Fatalf("%d %s %s", a.status, a.contentType, a.body)
	}
	return m
}

// failsAs checks the answer to a request whose failure CosId's client knows by a code.
func (n *node) failsAs(method, target, code string, seqdCode seqd.Code) {
	n.t.Helper()
	a := n.do(method, target, "").failed(n.t, seqdCode)
	if a.status != 400 || a.contentType != jsonType || !strings.HasPrefix(a.body, `{"code":"`+code+`","msg":"`) || !strings.HasSuffix(a.body, `","errors":[]}`) {
		n.t.Errorf("%d %s; want 400 %s", a.status, a.body, code)
	}
}

func TestCosIDMachines(t *testing.T) {
	a, b, pass := machineNodes(t)
	one := a.distribute("10.0.0.7:4711")
	must.Equal(t, b.distribute("10.0.0.7:4711").MachineID, one.MachineID, "the machine ID of an instance")
	two := b.distribute("other")
	must.Equal(t, two.MachineID, 1-one.MachineID, "that of another one")
	a.failsAs("POST", "/machines/fleet?machineBit=1&"+guard+"third", "M-01", seqd.CodeNoMachineID)
	pass(4 * time.Minute)
	b.do("PATCH", "/machines/fleet?"+guard+"10.0.0.7:4711", "").want(t, 200, "", "")
	a.do("DELETE", "/machines/fleet?stable=true&instanceId=10.0.0.7:4711", "").want(t, 200, "", "")
	a.do("DELETE", "/machines/fleet?stable=false&instanceId=nobody", "").want(t, 200, "", "")
	pass(2 * time.Minute)
	a.failsAs("PATCH", "/machines/fleet?"+guard+"other", "M-03", seqd.CodeLeaseLost)
	third := b.distribute("third")
	must.Equal(t, third.MachineID, two.MachineID, "the machine ID whose lease has ended")
	if third.LastTimeStamp < two.LastTimeStamp+(5*time.Minute).Milliseconds() {
		t.Errorf("times up to %d may have been used, and the next program begins at %d", two.LastTimeStamp+(5*time.Minute).Milliseconds(), third.LastTimeStamp)
	}
	if text := a.get("/worker-pools/fleet").body; !strings.Contains(text, `"held":2`) || !strings.Contains(text, `"instance":"10.0.0.7:4711"`) {
		t.Error(text)
	}
}

func TestCosIDMachineFailures(t *testing.T) {
	n, _, _ := machineNodes(t)
	const usual = "instanceId=one&stable=true&machineBit=1&safeGuardDuration="
	for _, duration := range []string{"", "PT", "5m", "PT5m", "PT0.9S", "PT1H0.001S", "PT5MS", "PT-5M", "-PT5M", "P1D", "PT2562047788015H12M55.807S", "PT9999999999999999999H", "PT5M&safeGuardDuration=PT5M"} {
		n.cosIDFails("POST", "/machines/fleet?"+usual+duration, 400, seqd.CodeInvalidRequest)
		n.cosIDFails("PATCH", "/machines/fleet?"+usual+duration, 400, seqd.CodeInvalidRequest)
	}
	for _, query := range []string{"", "instanceId=one", "stable=false", "stable=1&instanceId=one", "stable=true&stable=true&instanceId=one", "instanceId=one&stable=true&%zz"} {
		n.cosIDFails("POST", "/machines/fleet?machineBit=1&safeGuardDuration=PT1M&"+query, 400, seqd.CodeInvalidRequest)
		n.cosIDFails("PATCH", "/machines/fleet?safeGuardDuration=PT1M&"+query, 400, seqd.CodeInvalidRequest)
	}
	for _, bits := range []string{"", "0", "32", "x", "10"} {
		n.cosIDFails("POST", "/machines/fleet?"+guard+"one&machineBit="+bits, 400, seqd.CodeInvalidRequest)
	}
	n.cosIDFails("POST", "/machines/fleet?"+usual+"PT6M", 400, seqd.CodeInvalidRequest) // the ttl is less
	n.cosIDFails("POST", "/machines/nobody?"+usual+"PT1M", 404, seqd.CodeUnknownPool)
	n.cosIDFails("PATCH", "/machines/nobody?"+usual+"PT1M", 404, seqd.CodeUnknownPool)
	n.cosIDFails("POST", "/machines/a:b?"+usual+"PT1M", 400, seqd.CodeInvalidRequest)
	newNode(t, setup{starting: true}).cosIDFails("POST", "/machines/fleet?"+usual+"PT1M", 503, seqd.CodeStarting)
	for _, duration := range []string{"PT1S", "PT1M0.5S", "PT4M", "PT300S"} {
		n.do("POST", "/machines/fleet?"+usual+duration, "").failed(t, "")
	}
}

// The client sends no token: it has the scopes of compat.token.
func TestCosIDMachineScope(t *testing.T) {
	for scope, code := range map[string]seqd.Code{"issue:*": seqd.CodeForbidden, "lease:other": seqd.CodeForbidden, "lease:fl*": seqd.CodeUnknownPool} {
		n := newNode(t, setup{yaml: strings.Replace(tokensOn, "issue:*", scope, 1)})
		a := n.do("POST", "/machines/fleet?machineBit=1&"+guard+"one", "").failed(t, code)
		if want := fmt.Sprintf(`{"code":"%d",`, a.status); !strings.HasPrefix(a.body, want) {
			t.Error(a.body)
		}
	}
}
