package mongo

import (
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/internal/testing/must"
)

// privileges are as a server tells them.
func privileges(t *testing.T, text string) connectionStatus {
	t.Helper()
	var status connectionStatus
	must.Do(t, bson.UnmarshalExtJSON([]byte(`{"authInfo":{"authenticatedUsers":[{"user":"seqd"}],"authenticatedUserPrivileges":[`+text+`]}}`), false, &status))
	return status
}

func TestMissingRights(t *testing.T) {
	const all = `["find","insert","update","remove","createIndex"]`
	for name, test := range map[string]struct {
		privileges string
		some       string
		missing    int
	}{
		"readWrite":        {`{"resource":{"db":"seqd","collection":""},"actions":` + all + `}`, "", 0},
		"any database":     {`{"resource":{"db":"","collection":""},"actions":` + all + `}`, "", 0},
		"root":             {`{"resource":{"anyResource":true},"actions":["anyAction"]}`, "", 0},
		"another database": {`{"resource":{"db":"other","collection":""},"actions":` + all + `}`, "update on seqd.counters", 17},
		"the cluster":      {`{"resource":{"cluster":true},"actions":` + all + `}`, "find on seqd.slots", 17},
		"read":             {`{"resource":{"db":"seqd","collection":""},"actions":["find"]}`, "insert on seqd.slots", 11},
		"one collection":   {`{"resource":{"db":"seqd","collection":"counters"},"actions":` + all + `}`, "remove on seqd.documents", 13},
	} {
		t.Run(name, func(t *testing.T) {
			missing := privileges(t, test.privileges).missing("seqd")
			if len(missing) != test.missing || test.some != "" && !slices.Contains(missing, test.some) {
				t.Errorf("%d: %q", len(missing), missing)
			}
		})
	}
}

// An answer that was held up says nothing of the clock.
func TestClockIsThatOfTheFastestAnswer(t *testing.T) {
	heard := []clockReading{{2 * time.Second, 4 * time.Second}, {time.Millisecond, 2 * time.Millisecond}, {3 * time.Millisecond, 8 * time.Millisecond}}
	if offset, trip := clockOf(heard); offset != time.Millisecond || trip != 8*time.Millisecond {
		t.Errorf("%s ahead, after %s", offset, trip)
	}
}
