package failover

import "testing"

// A node gets ranges that the standby never receives, and dies. The other nodes have not seen these
// numbers, so nothing but the fence keeps them from issuing them again.
func TestRangesThatTheStandbyNeverGot(t *testing.T) {
	onBoth(t, func(p *pair) {
		env := settings()
		idle, busy := p.start(env...), p.start(env...)
		p.take(idle, "idle", 10)
		p.take(busy, "busy", 10)
		p.reach()
		p.standby.Detach()
		for range 20 {
			p.take(busy, "busy", 500)
		}
		busy.Kill()
		before := p.highest(p.primary)
		if behind := before - p.highest(p.standby); behind < 9000 {
			p.t.Fatalf("the standby is only %d numbers behind: this tests nothing", behind)
		}
		p.cutOff()
		fresh := p.start(env...)
		for range 20 {
			p.take(idle, "idle", 500)
			p.take(fresh, "fresh", 500)
		}
		idle.Stop()
		fresh.Stop()
		p.check()
		if p.skipped(before) < 1 {
			p.t.Error("it skipped nothing")
		}
	})
}
