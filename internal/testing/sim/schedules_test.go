package sim

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seqd/seqd/internal/testing/load"
)

// schedule is a script, and what it is for.
type schedule struct {
	name string
	was  string // what happened, or what would happen
	// rules are those of the product without which it happens. Some hide each other: those that are
	// taken out together are one text, with commas.
	rules []string
	world Options
}

// temptations are what would happen without some rules. Nobody has seen it.
var temptations = slices.Concat(someTemptations, redisTemptations, ledgerTemptations, workerTemptations, termTemptations, coordinated(termTemptations), coordinatorTemptations, slotTemptations, jobTemptations, eventTemptations, receiverTemptations, snapshotTemptations, moveTemptations)

// TestBugs shows that no bug of before is back.
func TestBugs(t *testing.T) { play(t, bugs) }

// TestTemptations shows that what would happen without some rules does not happen with them.
func TestTemptations(t *testing.T) { play(t, temptations) }

func play(t *testing.T, all []schedule) {
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if report := Run(t, s.world); report.Total() > 0 {
					t.Errorf("%s\n%v", s.was, report)
				}
			})
		})
	}
}

// ScheduleOf returns the first schedule that shows what happens without some rules.
func ScheduleOf(rules string) (name string, o Options, found bool) {
	for _, s := range slices.Concat(bugs, temptations) {
		if slices.Contains(s.rules, rules) {
			return s.name, s.world, true
		}
	}
	return "", Options{}, false
}

// only are biz types as they are.
func only(names ...string) map[string]load.Settings {
	all := make(map[string]load.Settings)
	for _, name := range names {
		all[name] = nil
	}
	return all
}
