package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy/segment"
)

// someBizType is what a configuration needs at least.
const someBizType = "bizTypes: [{name: order}]\n"

// nested writes path: value as YAML sections, one in another.
func nested(path, value string) string {
	var text strings.Builder
	parts := strings.Split(path, ".")
	for depth, part := range parts {
		fmt.Fprintf(&text, "%s%s:", strings.Repeat("  ", depth), part)
		if depth < len(parts)-1 {
			text.WriteByte('\n')
		}
	}
	return text.String() + " " + value + "\n"
}

// mustLoad loads a YAML text that has to be good.
func mustLoad(t *testing.T, text string, src config.Sources) *config.Config {
	t.Helper()
	c, err := config.LoadYAML([]byte(text), src)
	if err != nil {
		t.Fatalf("a good configuration was refused: %v\n%s", err, text)
	}
	return c
}

// wantError checks that a configuration is refused and that the error contains each part.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("a wrong configuration was accepted; want an error with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not contain %q:\n%v", part, err)
		}
	}
}

func settingsOf(t *testing.T, c *config.Config, i int) segment.Settings {
	t.Helper()
	if i >= len(c.BizTypes) {
		t.Fatalf("there are %d biz types, want more than %d", len(c.BizTypes), i)
	}
	s, ok := c.BizTypes[i].Settings.(*segment.Settings)
	if !ok {
		t.Fatalf("the settings are of type %T", c.BizTypes[i].Settings)
	}
	return *s
}
