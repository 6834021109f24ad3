package seqd_test

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd"
)

// BenchmarkIssueAll issues 64 calls of one number together.
func BenchmarkIssueAll(b *testing.B) {
	is, err := seqd.NewIssuer(definitions(1), seqd.Options{Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	is.Init(b.Context())
	calls, errs := pipelineOf(64)
	b.ReportAllocs()
	for b.Loop() {
		is.IssueAll(b.Context(), calls, errs)
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/64, "ns/call")
}

func pipelineOf(n int) ([]*seqd.Call, []error) {
	calls := make([]*seqd.Call, n)
	for k := range calls {
		calls[k] = &seqd.Call{BizType: bizTypeName(0), Count: 1}
	}
	return calls, make([]error, n)
}

var _ = fmt.Sprint
