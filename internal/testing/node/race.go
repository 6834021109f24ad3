package node

import (
	"os"
	"path/filepath"
	"testing"
)

// reportRaces returns a setting for the environment of a process: the race detector writes its
// reports to files. At the end of the test they fail it. An exit code would not do, because most
// processes are killed, and nor would the log, which not every test keeps.
func reportRaces(t testing.TB) (setting string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "seqd-race-") // t.TempDir may have a comma, which ends a setting
	if err != nil {
		t.Fatal(err)
	}
	reports := filepath.Join(folder, "race")
	t.Cleanup(func() { // after the process was killed: what Launch adds later is called first
		defer func() { _ = os.RemoveAll(folder) }()
		found, err := filepath.Glob(reports + ".*") // the end is the process ID
		if err != nil {
			t.Error(err)
		}
		for _, file := range found {
			report, err := os.ReadFile(file)
			t.Errorf("a race in a process of this test (%v):\n%s", err, report)
		}
	})
	return "GORACE=" + os.Getenv("GORACE") + " log_path=" + reports
}
