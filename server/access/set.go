package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
)

// The refusals of a check. The first says the same whatever is wrong, so that nobody learns which
// tokens there are.
var (
	errUnauthorized = seqd.Errorf(seqd.CodeUnauthorized, "a valid token is needed, as Authorization: Bearer <token>")
	errStarting     = &seqd.Error{Code: seqd.CodeStarting, Detail: "the tokens have not been read from the store yet", RetryAfter: time.Second}
)

// set is the tokens that are known at one time. It is not changed after it was made.
type set struct {
	// byPrefix finds entries by the first 8 bytes of their digests. That a prefix is there can be
	// learnt from the time a check takes; it is no help in finding a secret.
	byPrefix map[uint64][]*entry
	names    map[string]Token
	// complete says that the tokens of the store are among them.
	complete bool
}

// entry is a token as checks need it.
type entry struct {
	rights
	name    string
	digest  Digest
	enabled bool
	expires int64 // in ms since the Unix epoch, 0 for never
}

func newSet(names map[string]Token, complete bool) *set {
	s := &set{byPrefix: make(map[uint64][]*entry, len(names)), names: names, complete: complete}
	for _, t := range names {
		e := &entry{rights: rightsOf(t.Scopes), name: t.Name, digest: t.Sha256, enabled: t.Enabled}
		if !t.Expires.IsZero() {
			e.expires = t.Expires.UnixMilli()
		}
		prefix := prefixOf(&e.digest)
		s.byPrefix[prefix] = append(s.byPrefix[prefix], e)
	}
	// the same token wins each time, should two ever have one secret
	for _, same := range s.byPrefix {
		slices.SortFunc(same, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	}
	return s
}

// with returns a set in which a token is added or replaced.
func (s *set) with(t Token) *set {
	names := maps.Clone(s.names)
	names[t.Name] = t
	return newSet(names, s.complete)
}

// without returns a set without the token of a name.
func (s *set) without(name string) *set {
	names := maps.Clone(s.names)
	delete(names, name)
	return newSet(names, s.complete)
}

func prefixOf(d *Digest) uint64 { return binary.LittleEndian.Uint64(d[:8]) }

// find returns the token with this digest, nil when there is none.
func (s *set) find(digest *Digest) *entry {
	var found *entry
	for _, e := range s.byPrefix[prefixOf(digest)] {
		if subtle.ConstantTimeCompare(e.digest[:], digest[:]) == 1 && found == nil {
			found = e
		}
	}
	return found
}

// usable reports whether the token counts now.
func (e *entry) usable(now func() time.Time) bool {
	return e.enabled && (e.expires == 0 || now().UnixMilli() < e.expires)
}

// longestSecret bounds what is hashed for somebody who is not known.
const longestSecret = 256

// bearer returns the secret in the values of the Authorization header: exactly one value, the
// scheme in any case.
func bearer(authorization []string) (secret string, ok bool) {
	const scheme = "bearer "
	if len(authorization) != 1 || len(authorization[0]) <= len(scheme) || !strings.EqualFold(authorization[0][:len(scheme)], scheme) {
		return "", false
	}
	secret = strings.TrimLeft(authorization[0][len(scheme):], " ")
	if secret == "" || len(secret) > longestSecret {
		return "", false
	}
	for i := range len(secret) {
		if secret[i] <= ' ' || secret[i] > '~' {
			return "", false
		}
	}
	return secret, true
}

// allow checks the values of an Authorization header, see [Tokens.Allow].
func (s *set) allow(now func() time.Time, authorization []string, scope, bizType string) (name string, err error) {
	secret, ok := bearer(authorization)
	if !ok {
		return "", errUnauthorized
	}
	var buf [longestSecret]byte // a conversion would allocate
	digest := Digest(sha256.Sum256(buf[:copy(buf[:], secret)]))
	e := s.find(&digest)
	switch {
	case e == nil && !s.complete:
		return "", errStarting
	case e == nil || !e.usable(now):
		return "", errUnauthorized
	case !e.rights.allow(scope, bizType):
		return e.name, forbidden(scope, bizType)
	}
	return e.name, nil
}

func forbidden(scope, bizType string) *seqd.Error {
	if scope == ScopeIssue {
		return seqd.Errorf(seqd.CodeForbidden, "the token has no scope that allows issue:%.*s", seqd.MaxNameLength, bizType)
	}
	return seqd.Errorf(seqd.CodeForbidden, "the token does not have the scope %s", scope)
}
