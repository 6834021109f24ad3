// Package zookeeper keeps documents as nodes of ZooKeeper. It uses their versions, and neither
// ephemeral nodes nor watches.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
)

// sessionTimeout is that of a session of ZooKeeper, which is not one of a node: a server keeps what it
// knows of a connection for that long after the connection is gone. Nothing depends on it.
const sessionTimeout = 10 * time.Second

// atOnce is how many nodes are read at once: ZooKeeper has no operation that reads several.
const atOnce = 16

// Documents are in ZooKeeper. They are safe for concurrent use.
type Documents struct {
	opts  coordination.Options
	acl   []zk.ACL
	token string

	mu     sync.Mutex // guards what follows
	link   *link      // nil before the first operation, and after one that failed
	server int        // the next server, modulo their number
	closed bool
}

var _ coordination.Coordinator = (*Documents)(nil)

// New returns the documents. It connects to nothing. The token is user:password, for the scheme
// digest; then only that user may use the nodes.
func New(opts coordination.Options) *Documents {
	d := &Documents{opts: opts, token: opts.Secret(), acl: zk.WorldACL(zk.PermAll)}
	if d.token != "" {
		d.acl = zk.AuthACL(zk.PermAll)
	}
	return d
}

// Close ends the connection.
func (d *Documents) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.drop(d.link)
	return nil
}

// Create implements [coordination.Documents].
func (d *Documents) Create(ctx context.Context, doc persist.Document) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	value, err := coordination.Encode(doc)
	if err != nil {
		return err
	}
	path := d.path(doc.Kind, doc.Key)
	return d.do(ctx, doc.Kind, doc.Key, func(c *zk.Conn) error {
		_, err := c.Create(path, value, 0, d.acl)
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for i := range path { // the folders above
			if i == 0 || path[i] != '/' {
				continue
			}
			if _, err := c.Create(path[:i], nil, 0, d.acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
		_, err = c.Create(path, value, 0, d.acl)
		return err
	})
}

// Read implements [coordination.Documents].
func (d *Documents) Read(ctx context.Context, kind, key string) (doc persist.Document, err error) {
	if err = persist.CheckDocument(kind, key); err != nil {
		return doc, err
	}
	return as(ctx, d, kind, key, func(c *zk.Conn) (doc persist.Document, err error) {
		doc, err = d.get(c, kind, key)
		if !errors.Is(err, zk.ErrNoNode) {
			return doc, err
		}
		// The server may be behind the others. A check is ordered with all writes, by a majority,
		// so what was there before it is known to the server afterwards. (A sync may be answered by
		// a leader that has lost its followers.)
		_, err = c.Multi(&zk.CheckVersionRequest{Path: "/" + d.opts.Prefix, Version: -1})
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // nothing was ever written
			return doc, err
		}
		return d.get(c, kind, key)
	})
}

// get returns a document as the server has it. Its revision is that of the node, whatever its value
// says.
func (d *Documents) get(c *zk.Conn, kind, key string) (doc persist.Document, err error) {
	value, stat, err := c.Get(d.path(kind, key))
	if err != nil {
		return doc, err
	}
	doc, err = coordination.Decode(kind, key, value)
	doc.Revision = int64(stat.Version) + 1
	return doc, err
}

// Update implements [coordination.Documents].
func (d *Documents) Update(ctx context.Context, doc persist.Document) error {
	value, err := coordination.Encode(doc)
	if err != nil {
		return err
	}
	return d.swap(ctx, doc.Kind, doc.Key, doc.Revision-1, func(c *zk.Conn, version int32) error {
		_, err := c.Set(d.path(doc.Kind, doc.Key), value, version)
		return err
	})
}

// Delete implements [coordination.Documents].
func (d *Documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := persist.CheckDocument(kind, key); err != nil {
		return err
	}
	return d.swap(ctx, kind, key, revision, func(c *zk.Conn, version int32) error {
		return c.Delete(d.path(kind, key), version)
	})
}

// swap changes a document of a revision.
func (d *Documents) swap(ctx context.Context, kind, key string, revision int64, change func(c *zk.Conn, version int32) error) error {
	if revision < 1 || revision > math.MaxInt32 { // for ZooKeeper, version −1 is any
		return persist.WhyNotRevision(ctx, d, kind, key, revision, persist.ErrNotFound)
	}
	return d.do(ctx, kind, key, func(c *zk.Conn) error { return change(c, int32(revision-1)) })
}

// List implements [coordination.Documents].
func (d *Documents) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if err := persist.CheckDocuments(kind, after); err != nil {
		return nil, err
	}
	return as(ctx, d, kind, "", func(c *zk.Conn) (list []persist.Document, err error) {
		names, _, err := c.Children(strings.TrimSuffix(d.path(kind, ""), "/"))
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		var keys []string
		for _, name := range names {
			if key, ok := coordination.KeyOf(name); ok {
				keys = append(keys, key)
			}
		}
		if err != nil {
			return nil, err
		}
		keys = coordination.Page(keys, after, limit)
		docs, errs := make([]persist.Document, len(keys)), make([]error, len(keys))
		var all sync.WaitGroup
		turns := make(chan struct{}, atOnce)
		for i, key := range keys {
			turns <- struct{}{}
			all.Go(func() { docs[i], errs[i] = d.get(c, kind, key); <-turns })
		}
		all.Wait()
		for i, err := range errs {
			switch {
			case err == nil, coordination.Damaged(docs[i], err):
				list = append(list, docs[i])
			case !errors.Is(err, zk.ErrNoNode): // it was deleted meanwhile
				return nil, err
			}
		}
		return list, nil
	})
}

// path returns the path of a node.
func (d *Documents) path(kind, key string) string {
	return "/" + d.opts.Prefix + "/" + kind + "/" + coordination.Name(key)
}

// as is do for what returns something.
func as[T any](ctx context.Context, d *Documents, kind, key string, f func(*zk.Conn) (T, error)) (T, error) {
	answer := make(chan T, 1) // f may still run after do has returned
	err := d.do(ctx, kind, key, func(c *zk.Conn) error {
		t, err := f(c)
		answer <- t
		return err
	})
	select {
	case t := <-answer: // also one with an error, see [coordination.Damaged]
		return t, err
	default:
		var none T
		return none, err
	}
}

// do does something with the connection, within the time-out. The library knows no contexts, and
// stays for seconds with a server that does not answer: so do closes a connection on which an
// operation failed, and the next operation connects to the next server.
func (d *Documents) do(ctx context.Context, kind, key string, f func(*zk.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	if ctx.Err() != nil {
		return coordination.Unavailable(ctx.Err())
	}
	l, err := d.connect()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		if err := l.login(); err != nil {
			done <- err
			return
		}
		done <- f(l.conn)
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	switch {
	case err == nil, errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		return err
	case errors.Is(err, zk.ErrNoNode):
		err = persist.ErrNotFound
	case errors.Is(err, zk.ErrNodeExists):
		err = persist.ErrExists
	case errors.Is(err, zk.ErrBadVersion):
		err = persist.ErrConflict
	default:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(l)
		return coordination.Unavailable(err)
	}
	return fmt.Errorf("%s/%s: %w", kind, key, err)
}

// link is a connection. login must be called before it is used.
type link struct {
	conn  *zk.Conn
	login func() error
}

// connect returns the connection, which may not be made yet.
func (d *Documents) connect() (*link, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, persist.ErrClosed
	}
	if d.link != nil {
		return d.link, nil
	}
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return d.opts.Dial(ctx, network, addr)
	}
	conn, _, err := zk.Connect(d.opts.Addrs, sessionTimeout, zk.WithDialer(dial), zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithHostProvider(&hosts{addrs: d.opts.Addrs, next: d.server}))
	if err != nil {
		return nil, coordination.Unavailable(err)
	}
	d.link = &link{conn: conn, login: func() error { return nil }}
	if d.token != "" {
		d.link.login = sync.OnceValue(func() error { return conn.AddAuth("digest", []byte(d.token)) })
	}
	return d.link, nil
}

// drop closes a connection. mu is held.
func (d *Documents) drop(l *link) {
	if l == nil || d.link != l {
		return
	}
	d.link = nil
	d.server++
	go l.conn.Close() // it waits for a second if the server does not answer
}

// hosts name the servers one after another. Unlike those of the library they look no name up: the
// name is what the certificate of a server is for.
type hosts struct {
	addrs []string
	next  int
	tried int // since the last one that answered
}

// Init implements [zk.HostProvider].
func (*hosts) Init([]string) error { return nil }

// Len implements [zk.HostProvider].
func (h *hosts) Len() int { return len(h.addrs) }

// Next implements [zk.HostProvider].
func (h *hosts) Next() (server string, all bool) {
	server = h.addrs[h.next%len(h.addrs)]
	h.next++
	h.tried++
	return server, h.tried > 1 && (h.tried-1)%len(h.addrs) == 0
}

// Connected implements [zk.HostProvider].
func (h *hosts) Connected() { h.tried = 0 }

// silent drops what the library would log: the errors say the same.
type silent struct{}

// Printf implements [zk.Logger].
func (silent) Printf(string, ...any) {}
