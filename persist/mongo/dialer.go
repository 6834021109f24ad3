package mongo

import (
	"context"
	"errors"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/internal/distrust"
)

// dialer makes connections that the client library stops trusting together if one of them is
// silent. After an error that is no time-out it closes all that are idle, and looks at the server
// anew. After a time-out it keeps them, even the one that timed out, whose answer it waits for when
// it needs it next. A caller who leaves before half the time-out only makes the address suspect:
// the next connection that is given up decides.
type dialer struct{ dial distrust.DialFunc }

var _ options.ContextDialer = dialer{}

func newDialer(timeout time.Duration) dialer {
	return dialer{distrust.New(timeout/2, false).Dial((&net.Dialer{Timeout: timeout}).DialContext)}
}

// DialContext implements [options.ContextDialer].
func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return conn{c}, nil
}

// conn is a connection whose silence is no time-out.
type conn struct{ net.Conn }

var errSilent = errors.New("the server does not answer, nor does it close the connection")

// Read implements [net.Conn].
func (c conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if netError, ok := errors.AsType[net.Error](err); ok && netError.Timeout() && distrust.Closed(c.Conn) {
		err = errSilent
	}
	return n, err
}
