package httpapi_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// done has one job, which is done.
type done struct{ admin.Jobs }

func (done) Get(context.Context, string) (admin.Job, error) {
	return admin.Job{ID: "0123456789abcdef0123456789abcdef", BizType: "order", Format: "text"}, nil
}

func (d done) Result(ctx context.Context, id string, _ bool) (admin.Job, io.ReadSeeker, error) {
	job, err := d.Get(ctx, id)
	return job, strings.NewReader(strings.Repeat("1\n", 10_000)), err
}

// Downloads that nobody reads keep only other downloads out.
func TestDownloadsHavePlaces(t *testing.T) {
	api := newStarting(t, func(o *options) { o.MaxInFlightBytes, o.MaxInFlight = 1<<20, 2 })
	issuer := newIssuer(t, define("order", newCounter(100)))
	issuer.Init(t.Context())
	api.Gate().Ready(&gate.Running{Issuer: issuer, Jobs: done{}})
	const result = "/jobs/0123456789abcdef0123456789abcdef/result"
	var lets []func() *stuck
	for range httpapi.MostDownloads {
		lets = append(lets, hold(t, api, "GET", result))
	}
	wantProblem(t, do(t, api, "GET", result), 503, seqd.CodeOverloaded)
	must.Equal(t, do(t, api, "GET", "/seq/order?count=10000").Code, 200, "numbers")
	for _, let := range lets {
		must.Equal(t, let().status, 200, "a download")
	}
	must.Equal(t, do(t, api, "GET", result).Code, 200, "a download after them")
}

// The file of a result is called as its job, without what leads to another folder.
func TestNamesOfResults(t *testing.T) {
	const plain = `attachment; filename="order-01234567.txt"`
	for name, want := range map[string]string{
		"":                plain,
		" .. ":            plain,
		"Frühling 50% +1": plain + "; filename*=UTF-8''Fr%C3%BChling%2050%25%20%2B1.txt",
		`../a\b"c:*`:      plain + "; filename*=UTF-8''-a-b-c--.txt",
	} {
		got := httpapi.DispositionOf(admin.Job{ID: "0123456789abcdef0123456789abcdef", BizType: "order", Format: "text", Name: name})
		must.Equal(t, got, want, "the header for %q", name)
	}
}
