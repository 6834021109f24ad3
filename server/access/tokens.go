package access

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
)

// Kind is the kind of document that holds a token.
const Kind = "token"

// Options are the options of [New].
type Options struct {
	// Config holds the tokens of the configuration. They are valid, and their names and digests
	// differ.
	Config []Token
	// Asked is whether callers are asked for a token. Then tokens that were made before are warned
	// of.
	Asked bool
	Now   func() time.Time
	Log   *slog.Logger
}

// Backing is the store that holds tokens, and how to notify other nodes of changes.
type Backing struct {
	Documents persist.Documents
	// Clock is that of the store. What deleted tokens leave goes by it. If it is nil, it stays.
	Clock *storeclock.Clock
	// Now is the time that the nodes have in common. Tokens and secrets expire by it. If it is nil,
	// they expire by the time of this node, as they do before Use.
	Now func() time.Time
	// Announce is called before a token is written, Publish after it was or may have been written.
	// If Announce fails, the token does not change. Both may be nil.
	Announce func(ctx context.Context, kind, key string) error
	Publish  func(ctx context.Context, kind, key string)
}

// announce says that a token is about to change.
func (b *Backing) announce(ctx context.Context, name string) error {
	if b.Announce == nil {
		return nil
	}
	return b.Announce(ctx, Kind, name)
}

// publish says that a token has changed, even if the caller has gone.
func (b *Backing) publish(ctx context.Context, name string) {
	if b.Publish != nil {
		b.Publish(context.WithoutCancel(ctx), Kind, name)
	}
}

// Tokens holds all tokens: those of the configuration, which [Tokens.Configure] replaces, and those of the
// store.
// It is safe for concurrent use.
//
// Allow reads memory only, and memory follows the store: see memory.
type Tokens struct {
	opts     Options
	config   atomic.Pointer[map[string]Token]
	memory   memory
	backing  atomic.Pointer[Backing]
	warnings sync.Mutex
	warned   map[string]int64 // the revisions of tokens that were warned of; warnings guards it
}

// New returns the tokens of the configuration. [Tokens.Use] and [Tokens.Reload] add those of the
// store. Until then Allow answers an unknown token with [seqd.CodeStarting].
func New(opts Options) *Tokens {
	t := &Tokens{opts: opts, warned: make(map[string]int64)}
	names := byName(opts.Config)
	t.config.Store(&names)
	t.memory.known.Store(newSet(names, false))
	return t
}

// byName returns tokens of the configuration by their names.
func byName(tokens []Token) map[string]Token {
	names := make(map[string]Token, len(tokens))
	for _, token := range tokens {
		token.Source = FromConfig
		names[token.Name] = token
	}
	return names
}

// Configure replaces the tokens of the configuration, from the next request on. It reports whether it has
// shown or hidden tokens that the store may have: then the caller calls [Tokens.Reload], which reads the
// shown ones and warns of the hidden ones.
func (t *Tokens) Configure(tokens []Token) (reread bool) {
	names := byName(tokens)
	t.memory.replace(func(known map[string]Token) map[string]Token {
		t.config.Store(&names)
		now := maps.Clone(names)
		for name, token := range known {
			_, fixed := names[name]
			if !fixed && token.Source == FromAPI {
				now[name] = token
			}
			reread = reread || fixed != (token.Source == FromConfig)
		}
		return now
	})
	return reread
}

// fixed returns the token of this name that the configuration has.
func (t *Tokens) fixed(name string) (token Token, fixed bool) {
	token, fixed = (*t.config.Load())[name]
	return token, fixed
}

// Allow checks the values of a request's Authorization header and returns who calls. With an error
// it returns that too, if the token is known. scope is what the request needs: ScopeIssue for a
// counter, ScopeRead, ScopeAdmin, or "" if any token will do. counter is the name of a biz type, or
// with a key what [seqd.CounterOf] returns. The errors are [seqd.CodeUnauthorized],
// [seqd.CodeForbidden] and [seqd.CodeStarting]. Allow does not allocate if it returns no error.
func (t *Tokens) Allow(authorization []string, scope, counter string) (who Identity, err error) {
	return t.memory.known.Load().allow(t.time, authorization, scope, counter)
}

// AllowDigest is Allow for a caller whose secret has this digest: see [DigestOfSecret]. A caller
// that keeps its connection sends its secret once.
func (t *Tokens) AllowDigest(digest *Digest, scope, counter string) (who Identity, err error) {
	return t.memory.known.Load().allowDigest(t.time, digest, scope, counter)
}

// Find returns the token one of whose secrets has this digest. Its Expires is that of the secret if
// that is earlier. It returns [seqd.CodeUnauthorized] if there
// is none that is valid, and [seqd.CodeStarting] as Allow does.
func (t *Tokens) Find(digest *Digest) (Token, error) {
	s := t.memory.known.Load()
	who, err := s.allowDigest(t.time, digest, "", "")
	if err != nil {
		return Token{}, err
	}
	token := s.names[who.Name]
	token.Expires = s.find(digest).expires
	return token, nil
}

// Use sets the store that holds tokens.
func (t *Tokens) Use(b Backing) { t.backing.Store(&b) }

// documents returns the store, or an error if Use has not been called yet.
func (t *Tokens) documents() (persist.Documents, error) {
	if b := t.backing.Load(); b != nil {
		return b.Documents, nil
	}
	return nil, &seqd.Error{Code: seqd.CodeStarting, Detail: "the store is not open yet", RetryAfter: time.Second}
}

// Reload reads all tokens of the store. If it fails, memory may have only a part of them that is
// newer.
func (t *Tokens) Reload(ctx context.Context) error {
	store, err := t.documents()
	if err != nil {
		return err
	}
	for {
		began := t.memory.begin()
		names := maps.Clone(*t.config.Load())
		for doc, err := range persist.EveryDocument(ctx, store, Kind) {
			if err != nil {
				return fmt.Errorf("read the tokens: %w", err)
			}
			if token, ok := t.read(doc); ok {
				names[token.Name] = token
			}
		}
		if moved, ok := t.memory.settleAll(began, names); ok {
			return t.applyAll(ctx, moved)
		}
	}
}

// applyAll applies several tokens.
func (t *Tokens) applyAll(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := t.Apply(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Apply reads one token of the store again, because it changed.
func (t *Tokens) Apply(ctx context.Context, name string) error {
	store, err := t.documents()
	if err != nil {
		return err
	}
	for {
		began := t.memory.begin()
		doc, err := store.Read(ctx, Kind, name)
		to := t.memoryOf(doc)
		switch {
		case errors.Is(err, persist.ErrNotFound):
			to = nil
		case err != nil:
			return fmt.Errorf("read the token %s: %w", name, err)
		}
		if t.memory.settle(name, began, to) {
			return nil
		}
	}
}

// memoryOf returns what memory has of a document of the store: nil if that is no token of the
// store.
func (t *Tokens) memoryOf(doc persist.Document) *Token {
	if doc.Key == "" {
		return nil
	}
	if token, ok := t.read(doc); ok {
		return &token
	}
	return nil
}

// read returns the token of a document. ok is false if the configuration has a token of that name,
// which wins, and if the document cannot be understood: it may contain something that would keep a
// caller out.
func (t *Tokens) read(doc persist.Document) (token Token, ok bool) {
	if IsGone(doc) {
		return token, false
	}
	if _, fixed := t.fixed(doc.Key); fixed {
		t.tell(slog.LevelWarn, doc.Key, doc.Revision, "the store has a token with the name of one of the configuration; it is valid once that is removed there: delete it then")
		return token, false
	}
	token, err := readDocument(doc)
	if err != nil {
		t.tell(slog.LevelError, doc.Key, doc.Revision, "a token of the store cannot be read and is refused", "error", err)
		return token, false
	}
	open := slices.ContainsFunc(token.Secrets, func(s Secret) bool { return s.madeBy(Nobody) })
	if t.opts.Asked && token.Enabled && open {
		t.tell(slog.LevelWarn, token.Name, token.Revision, "a secret is valid that was made while nobody was asked for a token: give the token another secret and revoke this one, unless you have made it")
	}
	return token, true
}

// tell logs something of a token, once for each revision: whoever may publish on Redis has it read.
func (t *Tokens) tell(level slog.Level, name string, revision int64, text string, args ...any) {
	t.warnings.Lock()
	defer t.warnings.Unlock()
	if t.warned[name] != revision {
		t.warned[name] = revision
		t.opts.Log.Log(context.Background(), level, text, append(args, "token", name)...)
	}
}

// Get returns the token with this name, or [seqd.CodeNotFound].
func (t *Tokens) Get(ctx context.Context, name string) (Token, error) {
	if token, fixed := t.fixed(name); fixed {
		return token, nil
	}
	store, err := t.documents()
	if err != nil {
		return Token{}, err
	}
	return get(ctx, store, name)
}

func get(ctx context.Context, store persist.Documents, name string) (Token, error) {
	if seqd.CheckName(name) != nil {
		return Token{}, errNotFound
	}
	doc, err := store.Read(ctx, Kind, name)
	switch {
	case errors.Is(err, persist.ErrNotFound) || err == nil && IsGone(doc):
		return Token{}, errNotFound
	case err != nil:
		return Token{}, unavailable(err)
	}
	token, err := readDocument(doc)
	if err != nil {
		return Token{}, &seqd.Error{Code: seqd.CodeConflict, Detail: "what the store has under this name is not a token that this version of seqd knows", Err: err}
	}
	return token, nil
}

// List returns at most limit tokens in the order of their names, beginning after the name after.
// more is true if there are others behind them. List skips documents that it cannot read.
func (t *Tokens) List(ctx context.Context, after string, limit int) (list []Token, more bool, err error) {
	store, err := t.documents()
	if err != nil {
		return nil, false, err
	}
	config := *t.config.Load()
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if name > after {
			list = append(list, config[name])
		}
	}
	fixed := len(list)
	for from := after; len(list)-fixed <= limit; {
		page, err := store.List(ctx, Kind, from, limit+1)
		if err != nil {
			return nil, false, unavailable(err)
		}
		for _, doc := range page {
			_, fixed := config[doc.Key]
			if token, err := readDocument(doc); err == nil && !fixed {
				list = append(list, token)
			}
		}
		if len(page) <= limit {
			break
		}
		from = page[len(page)-1].Key
	}
	slices.SortFunc(list, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(limit, len(list))], len(list) > limit, nil
}

// Create creates a token and its secret, which it returns and does not keep. It uses Name,
// OwnsOpen, Scopes, Expires and Enabled of want. by is who makes it: see [Secret]. It returns
// [seqd.CodeInvalidRequest] for an invalid token, and [seqd.CodeConflict] if the name is taken.
func (t *Tokens) Create(ctx context.Context, want Token, by string) (made Token, secret string, err error) {
	if _, fixed := t.fixed(want.Name); fixed {
		return made, "", errFixed
	}
	now := t.now()
	secret, digest := NewSecret()
	made = Token{
		Name: want.Name, ID: newID(), OwnsOpen: want.OwnsOpen, Secrets: []Secret{{Sha256: digest, Made: now, By: by}},
		Scopes: want.Scopes, Expires: want.Expires, Enabled: want.Enabled, Source: FromAPI, Revision: 1, Updated: now,
	}
	if err := check(made); err != nil {
		return Token{}, "", err
	}
	err = t.write(ctx, made.Name, func(store persist.Documents) (*Token, error) {
		doc, err := createIn(ctx, store, documentOf(made))
		made.Revision = doc.Revision
		return t.memoryOf(doc), err
	})
	if errors.Is(err, persist.ErrExists) {
		return Token{}, "", seqd.Errorf(seqd.CodeConflict, "there is a token with this name already")
	}
	if err != nil {
		return Token{}, "", unwritten(err)
	}
	return made, secret, nil
}

// createIn creates the document of a token, in the place of what a deleted one left. It returns it
// as it was written.
func createIn(ctx context.Context, store persist.Documents, doc persist.Document) (persist.Document, error) {
	taken := store.Create(ctx, doc)
	if !errors.Is(taken, persist.ErrExists) {
		return doc, taken
	}
	former, err := store.Read(ctx, Kind, doc.Key)
	if errors.Is(err, persist.ErrNotFound) || err == nil && !IsGone(former) {
		return doc, taken
	}
	if err != nil {
		return doc, err
	}
	doc.Revision = former.Revision + 1
	err = store.Update(ctx, doc)
	if errors.Is(err, persist.ErrConflict) || errors.Is(err, persist.ErrNotFound) {
		return doc, taken
	}
	return doc, err
}

// time returns the time by which tokens expire.
func (t *Tokens) time() time.Time {
	if b := t.backing.Load(); b != nil && b.Now != nil {
		return b.Now()
	}
	return t.opts.Now()
}

func (t *Tokens) now() time.Time { return t.time().UTC().Truncate(time.Millisecond) }

// newID returns the ID of a new token.
func newID() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	return hex.EncodeToString(random[:])
}

// check returns an error if the token is invalid.
func check(t Token) error {
	for _, problem := range t.Validate() {
		return seqd.Errorf(seqd.CodeInvalidRequest, "%s: %s", problem.Key, problem.Text)
	}
	return nil
}

var (
	errNotFound = seqd.Errorf(seqd.CodeNotFound, "there is no token with this name")
	errNoSecret = seqd.Errorf(seqd.CodeNotFound, "the token has no secret with this ID")
	errFixed    = seqd.Errorf(seqd.CodeConflict, "the configuration has a token with this name, which is changed there")
)

// unavailable is the error of a failed read.
func unavailable(err error) error { return storeError(err, "the store cannot be asked") }

// unwritten is the error of a write that may have been made.
func unwritten(err error) error {
	return storeError(err, "the store did not confirm the change, which may or may not have been made: check, and try again")
}

func storeError(err error, detail string) error {
	if _, coded := errors.AsType[*seqd.Error](err); coded {
		return err
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: detail, RetryAfter: time.Second, Err: err}
}
