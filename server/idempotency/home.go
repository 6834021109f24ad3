package idempotency

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/logging"
)

// A cluster keeps its answers in one home: a Redis, or the store. Nodes that kept them in two would
// answer a repeated request twice. So each Redis gets an ID, in a key that does not expire, and a
// document of the store names the home that counts: docs/adr/0065-the-store-names-the-redis.md.

const (
	// homeKind is the kind of the document, and homeKey its key.
	homeKind = "answerhome"
	homeKey  = "redis"
	// inStore is the ID of the store. Those of Redis have 32 digits and a replication ID.
	inStore = "store"
	// homeLook is the pause between two looks of a node, and homeless how long nobody must have used
	// the home until another one may take its place.
	homeLook = 5 * time.Second
	homeless = 4 * homeLook
	// homePatience is how long a look may take, and homeTries how often it compares if other nodes
	// write the document at the same time.
	homePatience = 3 * time.Second
	homeTries    = 4
)

// ErrNotHome is why answers must not be kept where a node keeps them: its cluster has another home.
var ErrNotHome = errors.New("other nodes of this cluster keep the answers to requests with an Idempotency-Key in another place: " +
	"give all nodes the same redis.addrs, redis.db and redis.keyPrefix, or none of them a Redis")

var errHomeUnknown = errors.New("it is not known yet where this cluster keeps its answers to requests with an Idempotency-Key")

// Home says whether a node keeps its answers where its cluster does. It is safe for concurrent use.
type Home struct {
	documents persist.Documents
	// id returns the ID of the home where this node keeps answers. It gives a Redis one if it has
	// none.
	id  func(context.Context) (string, error)
	now func() time.Time
	// refused is the code of a request with a key while answers must not be kept.
	refused seqd.Code

	mu    sync.Mutex // guards cause
	cause error

	// Only one goroutine looks, and uses what follows.
	known    string    // the ID of the home that this process has used
	revision int64     // of the document, when it was last read
	since    time.Time // since when it has that revision, as far as this process knows
}

// NewHome returns the home of the answers of a cluster, as seen from a node that keeps them in a
// Redis, or in the store if client is nil. documents are those of a store that nodes share. NewHome
// does no I/O: until a look succeeds, no answers may be kept.
func NewHome(documents persist.Documents, client redis.UniversalClient, prefix string, now func() time.Time) *Home {
	h := &Home{documents: documents, now: now, cause: errHomeUnknown, refused: seqd.CodeStoreUnavailable}
	h.id = func(context.Context) (string, error) { return inStore, nil }
	if client != nil {
		h.refused = seqd.CodeRedisUnavailable
		h.id = func(ctx context.Context) (string, error) { return redisID(ctx, client, prefix, drawn()) }
	}
	return h
}

// Elsewhere returns why a node that keeps answers in a Redis, or in the store if client is nil,
// would refuse requests with a key while others use the store; nil if it would not. It changes
// nothing. The second error is why that is not known.
func Elsewhere(ctx context.Context, documents persist.Documents, client redis.UniversalClient, prefix string) (cause, err error) {
	doc, err := documents.Read(ctx, homeKind, homeKey)
	if errors.Is(err, persist.ErrNotFound) {
		return nil, nil
	}
	id := inStore
	if client != nil && err == nil {
		id, err = redisID(ctx, client, prefix, "")
	}
	if err != nil && !errors.Is(err, redis.Nil) || id == doc.Body {
		return nil, err
	}
	return ErrNotHome, nil
}

// homeIn returns the key of a Redis that has its ID.
func homeIn(prefix string) string { return prefix + "answers" }

//go:embed lua/home.lua
var homeSource string

var homeScript = redisonce.NewScript(homeSource)

// redisID returns the ID of a Redis. given is for a Redis that has none.
func redisID(ctx context.Context, client redis.UniversalClient, prefix, given string) (string, error) {
	id, err := homeScript.Run(ctx, client, homeIn(prefix), nil, given)
	text, ok := id.(string)
	if err == nil && !ok {
		err = errReply
	}
	return text, err
}

// drawn returns an ID for a Redis.
func drawn() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return fmt.Sprintf("%x", random)
}

// refusal returns what a request with a key gets if answers must not be kept, nil if they may.
func (h *Home) refusal() error {
	cause := h.Cause()
	if cause == nil {
		return nil
	}
	return &seqd.Error{Code: h.refused, Detail: cause.Error(), RetryAfter: homeLook, Err: cause}
}

// atHome is a backend that keeps nothing while answers must not be kept there.
type atHome struct {
	Backend
	home *Home
}

// Claim implements [Backend].
func (b atHome) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	if err := b.home.refusal(); err != nil {
		return "", err
	}
	return b.Backend.Claim(ctx, id, text, lease)
}

// Swap implements [Backend].
func (b atHome) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	if err := b.home.refusal(); err != nil {
		return "", err
	}
	return b.Backend.Swap(ctx, id, old, text, keep)
}

// Cause returns why answers must not be kept where this node keeps them, nil if they may. It does
// no I/O.
func (h *Home) Cause() error {
	if h == nil || sabotage.Off(sabotage.AnswersHome) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// Follow looks at the store and at Redis at every interval until ctx ends.
func (h *Home) Follow(ctx context.Context, log *slog.Logger) {
	trouble := logging.Trouble{Log: log, Begins: "requests with an Idempotency-Key are refused", Ends: "requests with an Idempotency-Key are answered"}
	ticker := time.NewTicker(homeLook)
	defer ticker.Stop()
	for {
		h.Look(ctx)
		if ctx.Err() == nil {
			trouble.Note(h.Cause())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Look looks once. If the store or Redis does not answer, what was known stays so.
func (h *Home) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, homePatience)
	defer cancel()
	var cause, err error
	for range homeTries {
		cause, err = h.compare(ctx)
		if !persist.Overtaken(err) {
			break // no other node has just written the document
		}
	}
	if err != nil {
		return // Redis and the store say so themselves
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cause = cause
}

// compare compares the home of this node with the one that the store names. A new revision of the
// document shows that a node uses the named home: such a node writes the document at each look,
// unless another one has written it since.
func (h *Home) compare(ctx context.Context) (cause, err error) {
	doc, err := h.documents.Read(ctx, homeKind, homeKey)
	missing := errors.Is(err, persist.ErrNotFound)
	if err != nil && !missing {
		h.revision = 0
		return nil, err
	}
	still := doc.Revision == h.revision
	if !still {
		h.revision, h.since = doc.Revision, time.Now()
	}
	id, err := h.id(ctx)
	uses := doc.Body == h.known && !missing // also while Redis is away
	switch {
	case err != nil && !uses:
		return nil, err
	case err != nil:
		id = h.known
	case !missing && id != doc.Body && !uses && (!still || time.Since(h.since) < homeless):
		return ErrNotHome, nil
	}
	if id != doc.Body || still {
		if failed := h.write(ctx, doc, id); failed != nil {
			return nil, failed
		}
	}
	h.known = id
	return nil, err
}

// write writes the document. Its error is [persist.Overtaken] if another node has just done so.
func (h *Home) write(ctx context.Context, doc persist.Document, id string) error {
	next := persist.Document{Kind: homeKind, Key: homeKey, Revision: doc.Revision + 1, Body: id, Timestamp: h.now().UnixMilli()}
	err := persist.Put(ctx, h.documents, next)
	if err == nil {
		h.revision, h.since = next.Revision, time.Now()
	}
	return err
}
