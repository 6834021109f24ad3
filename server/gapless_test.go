package server_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// A biz type that is forced to be gapless, and back, continues above all its numbers.
func TestStrategyIsForcedToGaplessAndBack(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: invoice}]"))
	if answer := s.await("/seq/invoice", http.StatusOK); answer != `{"bizType":"invoice","id":"1"}` {
		t.Fatal(answer)
	}
	s.do(409, "PUT", "/biz-types/invoice", `{"strategy":"gapless"}`)
	last := int64(1)
	for _, strategy := range []string{"gapless", "segment", "gapless", "snowflake", "gapless", "segment"} {
		s.do(200, "PUT", "/biz-types/invoice?force=true", `{"strategy":"`+strategy+`"}`)
		for range 3 {
			var got struct {
				ID json.Number `json:"id"`
			}
			answer := s.await("/seq/invoice", http.StatusOK)
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatal(answer, err)
			}
			n, err := got.ID.Int64()
			if strategy != "snowflake" && (err != nil || n <= last) {
				t.Fatalf("%s gave %d after %d, %v", strategy, n, last, err)
			}
			if strategy != "snowflake" {
				last = n
			}
		}
	}
}
