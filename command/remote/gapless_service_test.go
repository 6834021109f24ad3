package remote_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A session at a terminal with a gapless and a keyed biz type, against the service itself.
func TestGaplessAgainstTheService(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: invoice, strategy: gapless, maxReserved: 10, plugins: [{name: format, template: \"INV-{seq:04}\"}]}, "+
		"{name: bill, strategy: gapless, keyed: true}, {name: ticket, keyed: true, maxKeys: 2}]\n")
	if got := l.until("next", "invoice"); got.out != "INV-0001\n" || got.errs != "" {
		t.Fatalf("%+v", got)
	}
	reserve := func(args ...string) string {
		t.Helper()
		got := l.run(append([]string{"reserve", "--json"}, args...)...)
		var r struct {
			Reservation, State string
			IDs                []string
		}
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 || r.State != "reserved" || len(r.IDs) == 0 {
			t.Fatalf("%q: %+v, %v", args, got, err)
		}
		return r.Reservation
	}
	first, second := reserve("invoice", "-n", "2"), reserve("invoice", "--ttl", "1h")
	if got := l.run("confirm", "invoice", first); got.code != 0 || !strings.Contains(got.out, "IDs          INV-0002 INV-0003\nstate        confirmed\n") {
		t.Errorf("%+v", got)
	}
	if got := l.run("gaps", "invoice"); got.code != 0 || !strings.Contains(got.out, "reservation "+second+" until ") || !strings.HasSuffix(got.out, "1 to 4: 3 issued, 1 not\n") {
		t.Errorf("%+v", got)
	}
	l.wantError(1, "too_many_reserved", "reserve", "invoice", "-n", "10")
	l.want(second+": released\n", "release", "invoice", second)
	l.want(second+": released\n", "release", "invoice", second)
	l.wantError(1, "reservation_released", "confirm", "invoice", second)
	l.want("INV-0003: void\n", "void", "invoice", "INV-0003", "--reason", "=typed wrong", "--yes")
	l.wantError(1, "invalid_id", "void", "invoice", "INV-0099", "--reason", "x", "--yes")
	got := l.run("gaps", "invoice", "--csv")
	lines := strings.Split(got.out, "\r\n")
	if len(lines) != 5 || lines[1] != "1,2,,,issued,,,,," || !strings.HasPrefix(lines[2], "3,3,INV-0003,INV-0003,void,2") || !strings.HasSuffix(lines[2], ",'=typed wrong,,,") || !strings.HasPrefix(lines[3], "4,4,INV-0004,INV-0004,released,2") {
		t.Errorf("%+v", got)
	}
	l.want("INV-0004\nINV-0005\n", "next", "invoice", "-n", "2")
	if got := l.run("gaps", "invoice"); !strings.HasSuffix(got.out, "1 to 5: 4 issued, 1 not\n") {
		t.Errorf("%+v", got)
	}

	bill := reserve("bill", "--key", "t-1")
	if got := l.run("confirm", "bill", bill); got.code != 0 {
		t.Errorf("%+v", got)
	}
	l.want("1 to 1: 1 issued, no gaps\n", "gaps", "bill", "--key", "t-1")
	l.wantError(1, "invalid_key", "gaps", "bill")
	l.wantError(1, "invalid_key", "reserve", "bill")
	l.want("t-1\n", "keys", "bill")

	for _, test := range []struct{ want, args string }{
		{"# counter,highest\nbill/t-1,1\ninvoice,5\n", "counters --marks"},
		{"# counter,highest\nbill/t-1,1\n", "counters bill --marks"},
		{"# counter,highest\n", "counters nobody --marks"},
	} {
		l.want(test.want, strings.Fields(test.args)...)
	}
	if got := l.run("counters", "invoice"); !strings.HasPrefix(got.out, "COUNTER  HIGHEST  KEY  PERIOD  STRATEGY  SEQUENCER  CHANGED\ninvoice  5        -    -       gapless   ledger     2") {
		t.Errorf("%+v", got)
	}
	if got := l.run("counters", "invoice", "--csv"); !strings.HasPrefix(got.out, "\ufeffcounter,highest,bizType,key,period,strategy,sequencer,updatedAt\r\ninvoice,5,invoice,,,gapless,ledger,2") {
		t.Errorf("%+v", got)
	}

	folder := t.TempDir()
	if got := l.run("report", "bill", "--to", folder); got.code != 0 || !strings.HasPrefix(got.out, "1 counters: 1 numbers handed out, 1 issued, 0 not\n") {
		t.Errorf("%+v", got)
	}
	l.wantError(78, "is there already", "report", "bill", "--to", folder)
	l.wantError(78, "numbers that never reset belong to no year", "report", "bill", "--to", folder, "--year", "2026")
	if got := l.run("report", "invoice", "--to", folder); !strings.HasPrefix(got.out, "1 counters: 5 numbers handed out, 4 issued, 1 not\n") {
		t.Errorf("%+v", got)
	}
	table := string(must.Get(os.ReadFile(filepath.Join(folder, "invoice.csv")))(t))
	if !strings.Contains(table, "\ufeffkey,period,from,to,") || !strings.Contains(table, "\r\n,,1,2,,,issued,") || !strings.Contains(table, "\r\n,,3,3,INV-0003,INV-0003,void,2") || !strings.Contains(table, "\r\n,,4,5,,,issued,") {
		t.Error(table)
	}
	var whole struct {
		Counters []struct {
			Gaps   []any
			Issued int
		}
		Totals struct{ Issued int }
	}
	text := must.Get(os.ReadFile(filepath.Join(folder, "invoice.json")))(t)
	if err := json.Unmarshal(text, &whole); err != nil || len(whole.Counters) != 1 || len(whole.Counters[0].Gaps) != 1 || whole.Totals.Issued != 4 {
		t.Errorf("%s: %v", text, err)
	}
	sums := string(must.Get(os.ReadFile(filepath.Join(folder, "invoice.sha256")))(t))
	if want := fmt.Sprintf("%x  invoice.csv\n%x  invoice.json\n", sha256.Sum256([]byte(table)), sha256.Sum256(text)); sums != want {
		t.Errorf("%q, want %q", sums, want)
	}
	if left := must.Get(os.ReadDir(folder))(t); len(left) != 6 {
		t.Error(left)
	}

	l.want("1\n", "next", "ticket", "--key", "a")
	l.wantError(78, "ticket is not gapless", "report", "ticket", "--to", folder)
	l.want("1\n2\n", "next", "ticket", "--key", "b", "-n", "2")
	l.wantError(1, "too_many_keys", "next", "ticket", "--key", "c")
	l.wantError(1, "invalid_key", "next", "ticket")
	l.want("a\nb\n", "keys", "ticket")
	l.wantError(1, "invalid_request", "keys", "invoice")
	l.wantError(1, "invalid_request", "gaps", "ticket", "--key", "a")
	l.wantError(1, "invalid_request", "reserve", "ticket", "--key", "a")
}
