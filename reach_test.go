package seqd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
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
	var all *seqd.Reach
	must.Equal(t, must.Get(all.Resolve("/data/other"))(t), "/data/other", "without a reach")
	must.Is(t, must.Err(r.Resolve("/data/other")), seqd.ErrOutOfReach)
	for _, test := range []struct {
		r    *seqd.Reach
		name string
		ok   bool
	}{
		{all, "HOME", true}, {r, "HOME", false}, {&seqd.Reach{Variables: "APP_"}, "APP_KEY", true}, {&seqd.Reach{Variables: "APP_"}, "APP_", true},
		{&seqd.Reach{Variables: "APP_"}, "APP", false}, {&seqd.Reach{Variables: "APP_"}, "HOME", false}, {&seqd.Reach{Variables: "SEQD_"}, "SEQD_KEY", false},
	} {
		if err := test.r.CheckVariable(test.name); (err == nil) != test.ok {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// Links lead neither out of the folder nor to a file of the service, and its own files are known
// under any name.
func TestReachOfLinks(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	own := filepath.Join(root, "own")
	in := func(name string) string { return filepath.Join(own, name) }
	must.Do(t, os.Mkdir(own, 0o700))
	for _, path := range []string{in("key"), in("seqd.yaml"), filepath.Join(root, "seqd.db"), filepath.Join(root, "other")} {
		must.Do(t, os.WriteFile(path, nil, 0o600))
	}
	for name, to := range map[string]string{"good": in("key"), "new": in("later"), "out": filepath.Join(root, "other"), "up": root, "loop": in("loop"), "config": in("seqd.yaml")} {
		must.Do(t, os.Symlink(to, in(name)))
	}
	must.Do(t, os.Link(in("seqd.yaml"), in("hard")))
	must.Do(t, os.Link(filepath.Join(root, "seqd.db"), in("store")))
	for _, r := range []*seqd.Reach{
		{Folder: own, Store: filepath.Join(root, "seqd.db"), Own: []string{in("seqd.yaml")}}, {Folder: own, Own: []string{in("seqd.yaml")}},
	} {
		for name, want := range map[string]string{
			"key": "key", "good": "key", "absent": "absent", "a/b": "a/b", "new": "", "out": "", "up/other": "", "up/own/key": "key", "loop": "", "config": "", "hard": "", "key/x": "",
		} {
			got, err := r.Resolve(in(name))
			if want != "" && (err != nil || got != in(want)) || want == "" && err == nil {
				t.Errorf("%s resolves to %s, %v, want %q", name, got, err, want)
			}
		}
		if _, err := r.Resolve(in("store")); (err == nil) != (r.Store == "") {
			t.Errorf("a link to the store %q: %v", r.Store, err)
		}
	}
}
