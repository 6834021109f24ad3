// Package version returns the version of seqd, for seqd version, /nodes, /metrics, traces and the
// User-Agent of webhooks.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// linked and revision are set by the linker, or empty:
//
//	-ldflags "-X github.com/seqd/seqd/internal/version.linked=v1.2.3
//	          -X github.com/seqd/seqd/internal/version.revision=0a1b2c"
var linked, revision string

const (
	module = "github.com/seqd/seqd"
	// unreleased stands for an unknown version.
	unreleased = "development build"
)

// Of returns the version of seqd and, if seqd is part of a program of another module, that of the
// program. given is the program's own version. If it is "", the version of the linker counts, and
// then that of Go.
func Of(given string) string { return of(cmp.Or(given, linked), buildInfo()) }

// Revision returns the commit that the program was built from, "" if unknown. given overrides it,
// as for [Of].
func Revision(given string) string {
	return cmp.Or(given, revision, source, commit(buildInfo()))
}

// UserAgent returns the User-Agent of seqd's requests: seqd, with its version if it is a release.
func UserAgent() string { return userAgent(Of("")) }

func userAgent(version string) string {
	if first, _, _ := strings.Cut(version, " "); strings.HasPrefix(first, "v") {
		return "seqd/" + first
	}
	return "seqd"
}

func of(given string, info *debug.BuildInfo) string {
	program := cmp.Or(given, released(info.Main.Version))
	for _, dep := range info.Deps {
		if dep.Path != module {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		return strings.TrimSpace(cmp.Or(released(dep.Version), unreleased) + " in " + info.Main.Path + " " + program)
	}
	return cmp.Or(program, unreleased)
}

func commit(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// released returns version, or "" if Go made it up.
func released(version string) string { return strings.TrimPrefix(version, "(devel)") }
