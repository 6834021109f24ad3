package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/gate"
)

// saved writes a snapshot.
func saved(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "a snapshot")
	return err
}

// A snapshot that fails before its first byte is a problem document. Later its connection is cut.
func TestSnapshot(t *testing.T) {
	api := newStarting(t)
	fails := seqd.Errorf(seqd.CodeStoreUnavailable, "it is away")
	api.Gate().Ready(&gate.Running{Snapshot: func(ctx context.Context, w io.Writer) error {
		return errors.Join(saved(ctx, w), fails)
	}})
	func() {
		defer func() { must.Equal(t, recover(), any(http.ErrAbortHandler)) }()
		do(t, api, "GET", "/snapshot")
	}()
	api.Gate().Ready(&gate.Running{Snapshot: saved})
	w := do(t, api, "GET", "/snapshot")
	must.Equal(t, w.Body.String(), "a snapshot")
	must.Equal(t, w.Code, 200)
	must.Equal(t, w.Header().Get("Content-Disposition"), `attachment; filename="seqd.snapshot"`)
	api.Gate().Ready(&gate.Running{Snapshot: func(context.Context, io.Writer) error { return fails }})
	w = do(t, api, "GET", "/snapshot")
	wantProblem(t, w, 503, "store_unavailable")
	must.Equal(t, w.Header().Get("Content-Disposition"), "")
	wantProblem(t, do(t, api, "GET", "/snapshot?at=1"), 400, "invalid_request")
}
