package seqd_test

import (
	"testing"

	"github.com/seqd/seqd"
)

// A definition names files of its folder that the service does not use itself. No reach allows all.
func TestReach(t *testing.T) {
	r := &seqd.Reach{Folder: "/data/own", Store: "/data/own/seqd.db", Own: []string{"/data/own/seqd.yaml"}}
	for path, ok := range map[string]bool{
		"/data/own/key": true, "/data/own/a/../key": true, "/data/own/..key": true,
		"/data/other": false, "/data/own/../key": false, "/data/owner": false, "/data/own/a\x00": false, "key": false,
		"/data/own/seqd.yaml": false, "/data/own/SEQD.yaml": false, "/data/own/seqd.db": false, "/data/own/seqd.db.lock": false,
	} {
		if err := r.Check(path); (err == nil) != ok {
			t.Errorf("%q: %v, want allowed %t", path, err, ok)
		}
		if err := (*seqd.Reach)(nil).Check(path); err != nil {
			t.Errorf("%q without a reach: %v", path, err)
		}
	}
}
