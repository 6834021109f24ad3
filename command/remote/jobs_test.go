package remote_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A job is made and downloaded, at once and in two parts, and removed.
func TestJobs(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: coupon}]\n")
	made := l.until("jobs", "create", "coupon", "600000", "--name", "spring", "--idempotency-key", "k")
	id := strings.TrimSpace(made.out)
	must.Equal(t, made.code, 0, "making a job: %s", made.errs)
	must.Equal(t, l.run("jobs", "create", "coupon", "600000", "--name", "spring", "--idempotency-key", "k").out, made.out, "the same command again")

	file := filepath.Join(t.TempDir(), "coupons.txt")
	must.Equal(t, l.run("jobs", "download", id, "--output", file, "--wait"), outcome{}, "downloading it")
	all := must.Get(os.ReadFile(file))(t)
	must.Equal(t, strings.Count(string(all), "\n"), 600_000, "lines")
	must.Equal(t, l.run("jobs", "download", id, "-o", file), outcome{}, "downloading what is there")
	must.Equal(t, string(must.Get(os.ReadFile(file))(t)) == string(all), true, "the file is the same")
	must.Do(t, os.Truncate(file, 12_345))
	must.Equal(t, l.run("jobs", "download", id, "-o", file), outcome{}, "going on with it")
	must.Equal(t, string(must.Get(os.ReadFile(file))(t)) == string(all), true, "the file is the same")
	must.Equal(t, l.run("jobs", "download", id).out == string(all), true, "standard output is the same")

	for _, args := range [][]string{{"jobs", "list", "--biz-type", "coupon"}, {"jobs", "get", id}} {
		got := l.run(args...)
		if !strings.Contains(got.out, id) || !strings.Contains(got.out, "spring") || !strings.Contains(got.out, "done") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	must.Equal(t, l.run("jobs", "remove", id).code, 0, "removing it")
	schedule := strings.TrimSpace(l.run("jobs", "create", "coupon", "5", "--at", "2099-01-01T06:00:00Z", "--every", "month", "--time-zone", "Asia/Tokyo").errs)
	must.Equal(t, strings.Contains(schedule, "more than a year ahead"), true, "%s", schedule)
	schedule = strings.TrimSpace(l.run("jobs", "create", "coupon", "5", "--every", "month", "--time-zone", "Asia/Tokyo").out)
	if got := l.run("jobs", "get", schedule); !strings.Contains(got.out, "scheduled") {
		t.Errorf("a schedule: %+v", got)
	}
	for _, args := range [][]string{{"jobs", "get", id}, {"jobs", "download", id}, {"jobs", "create", "coupon", "x"}, {"jobs", "create", "coupon", "1", "--at", "soon"}, {"jobs", "create", "coupon", "0"}, {"jobs", "create", "nothing", "1"}} {
		if got := l.run(args...); got.code == 0 || got.errs == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
