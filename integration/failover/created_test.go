package failover

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// put creates a biz type.
func (p *pair) put(n *node.Node, name string) node.Answer {
	p.t.Helper()
	answer, err := n.Do(http.MethodPut, "/biz-types/"+name, `{"start":1}`)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, n.Log())
	}
	return answer
}

// A counter whose creation the standby never got looks new after a failover. It is not created
// again, until an operator confirms the failover. Counters that exist continue meanwhile.
func TestCounterThatTheStandbyNeverGot(t *testing.T) {
	onBoth(t, func(p *pair) {
		env := settings("per-node")
		a, b := p.start("a", env...), p.start("b", env...)
		p.take(a, "a", 1)
		p.reach()
		p.standby.Detach()
		if answer := p.put(a, "late"); answer.Status != http.StatusCreated {
			p.t.Fatalf("create: %+v", answer)
		}
		late := ordercheck.New()
		issue := func(n *node.Node) error {
			began := late.Now()
			numbers, err := n.Take("late", 200)
			if err == nil {
				late.Add(began, "late", numbers)
			}
			return err
		}
		if err := issue(a); err != nil {
			p.t.Fatal(err)
		}
		a.Kill()
		p.cutOff()
		p.take(b, "b", 2000)
		answer := p.put(b, "late")
		if err := issue(b); err == nil || !strings.Contains(err.Error()+answer.Body, "store_failed_over") {
			p.t.Fatalf("created again: %+v, %v", answer, err)
		}
		// What has a counter is issued by new nodes too.
		c := p.launch("c", p.link.Addr(), env...)
		c.Await("/seq/order", http.StatusOK)
		p.take(c, "c", 2000)
		p.confirm()
		p.put(b, "late")
		if out, code := node.Command(p.t, p.t.TempDir(), append(p.env(p.link.Addr()), env...), "raise", "late", "5000"); code != 0 {
			p.t.Fatalf("raise ended with %d: %s", code, out)
		}
		d := p.start("d", env...)
		if err := issue(d); err != nil {
			p.t.Errorf("after it was confirmed and raised: %v\n%s", err, d.Log())
		}
		for _, n := range []*node.Node{b, c, d} {
			n.Stop()
		}
		if err := late.Check(); err != nil {
			p.t.Error(err)
		}
		p.check()
	})
}
