package httpapi_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// counted are two counters.
type counted struct{}

func (counted) List(_ context.Context, bizType, after string, limit int) ([]admin.Standing, string, error) {
	if after == "" && limit == 1 {
		return []admin.Standing{{Counter: "a", BizType: bizType, Highest: 1, Sequencer: "node"}}, "a", nil
	}
	return nil, "", nil
}

func (counted) Show(_ context.Context, bizType, key string, period seqd.Period) (admin.Standing, error) {
	return admin.Standing{Counter: bizType, BizType: bizType, Key: key, Period: period.String(), Highest: 1 << 53, Sequencer: "ledger"}, nil
}

func TestCounters(t *testing.T) {
	api := newStarting(t)
	api.Gate().Ready(&gate.Running{Standings: counted{}})
	for target, want := range map[string]string{
		"/counters":                              `200 {"counters":[]}`,
		"/counters?limit=1&bizType=a":            `200 {"counters":[{"counter":"a","bizType":"a","highest":"1","sequencer":"node"}],"next":"a"}`,
		"/counters?limit=1&bizType=":             "400 invalid_biz_type",
		"/counters?bizType=a/b":                  "400 invalid_biz_type",
		"/counters?limit=1001":                   "400 invalid_request",
		"/counters?after=%ff":                    "400 invalid_request",
		"/counters?key=a":                        "400 invalid_request",
		"/biz-types/a/counter":                   `200 {"counter":"a","bizType":"a","highest":"9007199254740992","sequencer":"ledger"}`,
		"/biz-types/a/counter?key=k&period=2026": `200 {"counter":"a","bizType":"a","key":"k","period":"2026"`,
		"/biz-types/a/counter?key=":              "400 invalid_key",
		"/biz-types/a/counter?period=20":         "400 invalid_request",
		"/biz-types/a/counter?limit=1":           "400 invalid_request",
		"/biz-types/a%2Fb/counter":               "400 invalid_biz_type",
	} {
		w := do(t, api, http.MethodGet, target)
		status, part, _ := strings.Cut(want, " ")
		if strconv.Itoa(w.Code) != status || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s: %d %s, want %s", target, w.Code, w.Body, want)
		}
	}
}
