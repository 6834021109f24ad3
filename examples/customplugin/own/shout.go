package own

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

func init() {
	plugin.RegisterRejected(plugin.RejectedFactory{
		Name:     "shout",
		Help:     "Writes a line to standard error for each refusal.",
		Settings: func() any { return &shoutSettings{Prefix: "REFUSED"} },
		New: func(_ plugin.Env, binding seqd.RejectedBinding) (seqd.RejectedHandler, error) {
			return &shout{prefix: binding.Settings.(*shoutSettings).Prefix, w: os.Stderr}, nil
		},
	})
}

// shoutSettings are what a binding says: {name: shout, prefix: "!!!"}.
type shoutSettings struct {
	Prefix string `config:"prefix"`
}

// shout writes a line for every request that was refused. It runs in the request: a real one would
// count, or queue.
type shout struct {
	prefix string
	w      io.Writer
}

var _ seqd.RejectedHandler = (*shout)(nil)

// Rejected is called once for each rejected call. call is reused afterwards: nothing may keep a
// pointer into it.
func (s *shout) Rejected(_ context.Context, call *seqd.Call, err *seqd.Error) {
	fmt.Fprintf(s.w, "%s %s ×%d: %s\n", s.prefix, call.BizType, call.Count, err.Detail)
}
