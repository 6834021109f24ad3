// Package coordination defines where package server/terms can have the sessions of nodes, the work
// "leader" with its manifest, and permits: the documents of the store, or a coordinator. The drivers
// for coordinators are coordination/consul and coordination/zookeeper.
//
// A coordinator says who should do a work. The document of the work, which is always in the store,
// says who may. So a coordinator that is away, was wiped or is the wrong one costs time, and never a
// number: see docs/COORDINATION.md. It can have the registry of machine IDs too, for which package
// strategy/snowflake/coordslots says what that means.
//
// To add a driver:
//
//  1. Write a package that implements [Coordinator], and passes package coordinationtest.
//  2. Add its name to server/config/coordination.go, with a check of what it needs.
//  3. Open it in server/backends/coordination.go, and say in docs/COORDINATION.md how it is used.
package coordination

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
)

// Documents are documents as [persist.Documents] has them, with the same errors. Every change is
// atomic. After an error other than those named there it may have happened, or may happen later.
//
// Read never returns [persist.ErrNotFound] for a document that was there when Read was called: a
// session whose document is not there is dead. What Read and List return otherwise may be a little
// old.
//
// A coordinator returns what is no document, or one of a newer format, all the same, without a body and
// with a revision that changes with it, so that Delete can remove it: Read with [persist.ErrInvalid] or
// [persist.ErrNewer], List without an error, because one must not hide the others.
type Documents interface {
	Create(ctx context.Context, d persist.Document) error
	Read(ctx context.Context, kind, key string) (persist.Document, error)
	Update(ctx context.Context, d persist.Document) error
	Delete(ctx context.Context, kind, key string, revision int64) error
	List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error)
}

var _ Documents = persist.Documents(nil)

// Coordinator is a system other than the store that has documents, such as Consul.
type Coordinator interface {
	Documents
	io.Closer
}

// Options are how a driver reaches its servers.
type Options struct {
	// Addrs are the servers, as host:port.
	Addrs []string
	// Token returns the secret that the servers ask for, "" for none. A nil Token means none.
	Token func() string
	// Prefix is the beginning of each key: names with slashes between them.
	Prefix string
	// Timeout bounds each operation, whatever server is asked.
	Timeout time.Duration
	// Dial connects to a server, with TLS if that is configured.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Secret returns the token as it is now.
func (o *Options) Secret() string {
	if o.Token == nil {
		return ""
	}
	return o.Token()
}

const (
	idKind = "coordinator"
	idKey  = "id"
)

// Identify returns the ID of a coordinator. If the coordinator has none, Identify writes one. So a
// coordinator that lost its data gets another ID.
func Identify(ctx context.Context, documents Documents) (id string, err error) {
	if id, err = ReadID(ctx, documents); errors.Is(err, persist.ErrNotFound) {
		id = rand.Text()
		err = documents.Create(ctx, persist.Document{Kind: idKind, Key: idKey, Revision: 1, Body: id})
		if errors.Is(err, persist.ErrExists) {
			return ReadID(ctx, documents)
		}
	}
	return id, err
}

// ReadID returns the ID of a coordinator, or [persist.ErrNotFound] if it has none.
func ReadID(ctx context.Context, documents Documents) (id string, err error) {
	doc, err := documents.Read(ctx, idKind, idKey)
	return doc.Body, err
}

// longestValue is what the servers take of one value, with some room for what they add.
const longestValue = 500_000

// Damaged reports whether an error of Read is about a document that is there, and that it returned
// without a body.
func Damaged(doc persist.Document, err error) bool {
	return doc.Revision > 0 && (errors.Is(err, persist.ErrInvalid) || errors.Is(err, persist.ErrNewer))
}

// format is the version of Encode.
const format = 1

// Encode returns the value of a document: its format, revision, time and expiry in a line, and the
// body.
func Encode(d persist.Document) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, "%d %d %d %d\n%s", format, d.Revision, d.Timestamp, d.Expires, d.Body)
	if len(text) > longestValue {
		return nil, fmt.Errorf("%w: %s has %d bytes, and a coordinator takes %d", persist.ErrInvalid, d.PersistID(), len(text), longestValue)
	}
	return text, nil
}

// Decode returns the document of a value.
func Decode(kind, key string, value []byte) (persist.Document, error) {
	d := persist.Document{Kind: kind, Key: key}
	head, body, ok := strings.Cut(string(value), "\n")
	var version int
	_, err := fmt.Sscanf(head, "%d %d %d %d", &version, &d.Revision, &d.Timestamp, &d.Expires)
	switch {
	case version > format:
		return d, fmt.Errorf("%w: %s of the coordinator", persist.ErrNewer, d.PersistID())
	case err != nil, !ok, d.Revision < 1:
		return d, fmt.Errorf("%w: %s of the coordinator is damaged; remove it there", persist.ErrInvalid, d.PersistID())
	}
	d.Body = body
	return d, nil
}

// Name returns a key as a name without slashes, and other than "." and "..".
func Name(key string) string {
	if name := url.PathEscape(key); strings.Trim(name, ".") != "" {
		return name
	}
	return strings.ReplaceAll(key, ".", "%2E")
}

// KeyOf returns the key of a name. ok is false if Name returns no such name.
func KeyOf(name string) (key string, ok bool) {
	key, err := url.PathUnescape(name)
	return key, err == nil && Name(key) == name
}

// ErrUnavailable is [persist.ErrUnavailable] of a coordinator.
var ErrUnavailable = fmt.Errorf("the coordinator: %w", persist.ErrUnavailable)

// Unavailable returns the error of an operation that did not end, or that servers refused.
func Unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// Page returns at most limit of the keys that are greater than after, in byte order.
func Page(keys []string, after string, limit int) []string {
	keys = slices.DeleteFunc(keys, func(key string) bool { return key <= after })
	slices.Sort(keys)
	return keys[:max(0, min(limit, len(keys)))]
}
