package seqd

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// Biz types come and go: what is kept of their refusals is bounded by how many are refused within a
// minute.
func TestEpisodesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := LogRejected(slog.New(slog.DiscardHandler)).(*logRejected)
		for i := range 10 * fewEpisodes {
			h.Rejected(t.Context(), &Call{BizType: fmt.Sprint("order", i), Count: 1}, &Error{Code: CodeStopping})
			time.Sleep(time.Second)
			if len(h.episodes) > fewEpisodes {
				t.Fatalf("%d episodes are kept", len(h.episodes))
			}
		}
	})
}
