package version

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A program with additional plugins shows both versions.
func TestOf(t *testing.T) {
	seqd := func(version string, replace *debug.Module) []*debug.Module {
		return []*debug.Module{{Path: "other", Version: "v9"}, {Path: module, Version: version, Replace: replace}}
	}
	main := func(path, version string) debug.Module { return debug.Module{Path: path, Version: version} }
	for name, test := range map[string]struct {
		given string
		info  debug.BuildInfo
		want  string
	}{
		"seqd":          {"", debug.BuildInfo{Main: main(module, "v1.2.3")}, "v1.2.3"},
		"nothing known": {"", debug.BuildInfo{}, "development build"},
		"given":         {"v1", debug.BuildInfo{Main: main(module, "v1.2.3")}, "v1"},
		"custom":        {"", debug.BuildInfo{Main: main("acme/seqd", "v7"), Deps: seqd("v1.2.3", nil)}, "v1.2.3 in acme/seqd v7"},
		"custom, given": {"v8", debug.BuildInfo{Main: main("acme/seqd", "v7"), Deps: seqd("v1.2.3", nil)}, "v1.2.3 in acme/seqd v8"},
		"replaced": {"", debug.BuildInfo{Main: main("acme/seqd", "(devel)"), Deps: seqd("v1.2.3", &debug.Module{Path: "../seqd"})},
			"development build in acme/seqd"},
	} {
		must.Equal(t, of(test.given, &test.info), test.want, "%s", name)
	}
}

func TestRevision(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0a1b2c"}}}
	must.Equal(t, commit(info), "0a1b2c")
	must.Equal(t, Revision("ff"), "ff", "the given revision")
}

func TestUserAgent(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "seqd/v1.2.3", "v1.2.3 in acme/seqd v7": "seqd/v1.2.3", "development build": "seqd", "": "seqd",
	} {
		must.Equal(t, userAgent(version), want, "%q", version)
	}
}

// The linker sets these variables by name, and does not complain if they are missing.
func TestImageSetsTheVersion(t *testing.T) {
	text := must.Get(os.ReadFile("../../Dockerfile"))(t)
	for _, flag := range []string{"-X " + module + "/internal/version.linked=${VERSION}", "-X " + module + "/internal/version.revision=${REVISION}"} {
		if !strings.Contains(string(text), flag) {
			t.Errorf("the Dockerfile lacks %s", flag)
		}
	}
}
