package httpapi_test

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// Profiles are there only if the configuration says so, and only for admin.
func TestProfiles(t *testing.T) {
	must.Equal(t, do(t, newStarting(t), "GET", "/debug/pprof/heap").Code, 404, "without the setting")
	api := newStarting(t, func(o *options) { o.Profiles = true })
	for path, want := range map[string]int{
		"heap?debug=1": 200, "goroutine": 200, "trace?seconds=0.01": 200, "": 404, "cmdline": 404, "symbol": 404, "../heap": 404,
	} {
		must.Equal(t, do(t, api, "GET", "/debug/pprof/"+path).Code, want, "%q", path)
	}
}
