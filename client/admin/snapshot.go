package admin

import (
	"context"
	"io"

	"github.com/seqd/seqd/client"
)

// Snapshot writes all that the store has to w, for seqd snapshot restore. It is complete only if
// its last line says so: seqd snapshot status checks that. It needs the scope admin.
func (a *Admin) Snapshot(ctx context.Context, w io.Writer) error {
	_, err := a.client.Do(ctx, client.Request{Op: "save snapshot", Path: "/snapshot", Long: true, To: w})
	return err
}
