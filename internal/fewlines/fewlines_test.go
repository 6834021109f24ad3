package fewlines

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// Whoever causes lines without end causes few, and the next one says how many were left out.
func TestFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := New(slog.New(slog.NewTextHandler(&out, nil)))
		for range 1000 {
			log.Warn("one", "n", 1)
		}
		must.Equal(t, strings.Count(out.String(), "msg=one n=1\n"), mostLines, "the lines in %s", out.String())
		time.Sleep(time.Second)
		out.Reset()
		log.Error("next")
		log.Error("another")
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "level=ERROR msg=next leftOut=900\n") {
			t.Errorf("logged %s", got)
		}
	})
}
