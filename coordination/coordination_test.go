package coordination_test

import (
	"testing"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/coordination/coordinationtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

func TestInMemory(t *testing.T) {
	coordinationtest.Run(t, func(*testing.T) coordination.Documents { return memory.New(time.Now).Documents() })
}

// A value that somebody changed by hand, or that a later version wrote, is refused.
func TestDecode(t *testing.T) {
	for text, want := range map[string]error{
		"": persist.ErrInvalid, "1 1 0 0": persist.ErrInvalid, "1 0 0 0\n": persist.ErrInvalid, "{}\n": persist.ErrInvalid,
		"2 x\n": persist.ErrNewer, "1 3 -4 5\na\nb": nil,
	} {
		d, err := coordination.Decode("k", "x", []byte(text))
		must.Is(t, err, want)
		if err == nil {
			must.Equal(t, d, persist.Document{Kind: "k", Key: "x", Revision: 3, Timestamp: -4, Expires: 5, Body: "a\nb"})
			must.Equal(t, string(must.Get(coordination.Encode(d))(t)), text)
		}
	}
	_, ok := coordination.KeyOf("%2e")
	must.Equal(t, ok, false, "a name that Name does not return")
}
