// Package e2e runs the real binary on its embedded store, and stops and kills it in every way.
package e2e

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

// patient returns settings that let requests wait for a disk that is slow for a while, and more settings.
// One that fails would end a load.
func patient(more ...string) []string {
	return append(more, "SEQD_SEGMENT_ACQUIRETIMEOUT=1m", "SEQD_SERVER_WRITETIMEOUT=10m")
}

// Kill -9 under load, again and again: no number is issued twice, every number after a restart is
// larger than all acknowledged before, and no more is skipped than two segments and the requests in
// flight.
func TestKill9(t *testing.T) {
	const step, rounds = 1000, 6
	dir := t.TempDir()
	h := ordercheck.New()
	for round := range rounds {
		before := h.Highest()
		n := node.StartReady(t, dir, patient(fmt.Sprintf("SEQD_SEGMENT_STEP=%d", step), fmt.Sprintf("SEQD_SEGMENT_MAXSTEP=%d", step))...)
		began := h.Now()
		first := must.Get(n.Take("order", 1))(t)
		h.Add(began, "first caller", first)
		if before > 0 && first[0] > before+2*step+node.Callers*50 {
			t.Errorf("round %d: after %d came %d: more was skipped than two segments and %d requests", round, before, first[0], node.Callers)
		}
		l := node.StartLoad(n, "order", h, fmt.Sprint("round ", round))
		l.Await(t, int64(500+round*557)) // a different position in the segments each time
		n.Kill()
		l.Wait()
		must.Report(t, h.Check())
	}
	t.Logf("%d numbers were acknowledged over %d kills", h.Numbers(), rounds)
}

// A clean stop under load skips nothing: every number up to the last is acknowledged.
func TestCleanStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	h := ordercheck.New()
	for round := range 2 {
		n := node.StartReady(t, dir, patient("SEQD_SEGMENT_STEP=100")...)
		l := node.StartLoad(n, "order", h, fmt.Sprint("round ", round))
		l.Await(t, int64(300+round*333))
		n.Stop()
		l.Wait()
		must.Report(t, h.Check())
		if issued, highest := int64(h.Numbers()), h.Highest(); highest != 100+issued-1 {
			t.Errorf("round %d: %d numbers were acknowledged, but the highest is %d: %d were skipped", round, issued, highest, highest-99-issued)
		}
	}
}

// Of two processes on one file, the second refuses to start and names the file, and the first
// continues.
func TestTwoProcessesOnOneFile(t *testing.T) {
	dir := t.TempDir()
	first := node.StartReady(t, dir)
	wantText(t, node.Launch(t, dir, "SEQD_STORE_BOLT_LOCKTIMEOUT=100ms").Fails(), "data/seqd.db", "another process is using it")
	if numbers, err := first.Take("order", 1); err != nil || numbers[0] != 100 {
		t.Errorf("the first process gives %v, %v", numbers, err)
	}
	// The file is free as soon as its holder has ended.
	first.Kill()
	node.Start(t, dir).Await("/seq/order", 200)
}
