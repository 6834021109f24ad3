package logging

import (
	"strings"
	"testing"
)

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{"json": `"msg":"shown"`, "text": "msg=shown"} {
		var out strings.Builder
		log := New(Options{Level: "warn", Format: format}, &out)
		log.Info("hidden")
		log.Warn("shown")
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "hidden") {
			t.Errorf("%s: logged %s", format, got)
		}
	}
}
