// Package version is the one place that says which version of seqd is running: seqd version,
// /nodes, /metrics, traces and the User-Agent of webhooks ask it.
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
	// unreleased stands for a version that is not known.
	unreleased = "development build"
)

// Of returns the version of seqd and, if seqd is part of a program of another module, that of the
// program. given is the program's own version; "" leaves it to the linker, and then to Go.
func Of(given string) string { return of(cmp.Or(given, linked), buildInfo()) }

// Revision returns the commit that the program was built from, "" if nobody knows. given comes
// first, as for [Of].
func Revision(given string) string {
	return cmp.Or(given, revision, commit(buildInfo()))
}

// UserAgent returns how seqd calls itself in requests: seqd, with its version if it is a release.
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

// released returns a version, "" for one that Go made up.
func released(version string) string { return strings.TrimPrefix(version, "(devel)") }
