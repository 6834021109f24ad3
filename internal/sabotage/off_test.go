//go:build !seqd_sabotage

package sabotage

import "testing"

// The default build has all rules, whatever the environment says.
func TestDefaultBuild(t *testing.T) {
	t.Setenv("SEQD_TEST_SABOTAGE", "fence,range-once")
	for _, r := range Rules {
		if Off(r) {
			t.Errorf("%s is off", r)
		}
	}
	const script = "true --[[without fence: and false]]"
	if names := Names(); names != nil || Script(script) != script {
		t.Errorf("names %v, script %q", names, Script(script))
	}
}
