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

// Errors of a check. errUnauthorized does not say what is wrong, so that nobody learns which tokens
// exist.
var (
	errUnauthorized = seqd.Errorf(seqd.CodeUnauthorized, "a valid token is needed, as Authorization: Bearer <token>")
	errStarting     = &seqd.Error{Code: seqd.CodeStarting, Detail: "the tokens have not been read from the store yet", RetryAfter: time.Second}
)

// set is an immutable set of tokens.
type set struct {
	// byPrefix finds tokens by the first 8 bytes of their digests. The time a check takes may
	// reveal that a prefix exists, which does not help to find a secret.
	byPrefix map[uint64][]*credential
	byName   map[string]*credential // without a secret
	names    map[string]Token
	// complete is true if the tokens of the store have been read.
	complete bool
}

// credential is a token with one of its secrets, in the form that checks need.
type credential struct {
	rights
	Identity
	digest  Digest
	enabled bool
	expires time.Time // the earlier expiry of the token and the secret; zero for never
}

func (t *Token) credential(s Secret) *credential {
	c := &credential{rights: rightsOf(t.Scopes), Identity: t.Identity(), digest: s.Sha256, enabled: t.Enabled, expires: t.Expires}
	if c.expires.IsZero() || !s.Expires.IsZero() && s.Expires.Before(c.expires) {
		c.expires = s.Expires
	}
	return c
}

func newSet(names map[string]Token, complete bool) *set {
	s := &set{byPrefix: make(map[uint64][]*credential, len(names)), byName: make(map[string]*credential, len(names)), names: names, complete: complete}
	for _, t := range names {
		s.byName[t.Name] = t.credential(Secret{})
		for _, secret := range t.Secrets {
			prefix := prefixOf(&secret.Sha256)
			s.byPrefix[prefix] = append(s.byPrefix[prefix], t.credential(secret))
		}
	}
	// if two tokens have the same secret, the one whose name is lower wins
	for _, same := range s.byPrefix {
		slices.SortFunc(same, func(a, b *credential) int { return strings.Compare(a.Name, b.Name) })
	}
	return s
}

// with returns a copy of the set in which t is added or replaces its previous version.
func (s *set) with(t Token) *set {
	names := maps.Clone(s.names)
	names[t.Name] = t
	return newSet(names, s.complete)
}

// without returns a copy of the set without the token of that name.
func (s *set) without(name string) *set {
	names := maps.Clone(s.names)
	delete(names, name)
	return newSet(names, s.complete)
}

func prefixOf(d *Digest) uint64 { return binary.LittleEndian.Uint64(d[:8]) }

// find returns the token with this digest, or nil.
func (s *set) find(digest *Digest) *credential {
	var found *credential
	for _, c := range s.byPrefix[prefixOf(digest)] {
		if subtle.ConstantTimeCompare(c.digest[:], digest[:]) == 1 && found == nil {
			found = c
		}
	}
	return found
}

// usable reports whether the token is enabled, and neither it nor the secret has expired.
func (c *credential) usable(now func() time.Time) bool {
	return c.enabled && (c.expires.IsZero() || now().Before(c.expires))
}

// longestSecret is the longest secret that is hashed, so that unknown callers cannot cost more.
const longestSecret = 256

// bearer returns the digest of the secret in the Authorization header. The header must have exactly
// one value; the case of the scheme does not matter.
func bearer(authorization []string) (digest Digest, ok bool) {
	const scheme = "bearer "
	if len(authorization) != 1 || len(authorization[0]) <= len(scheme) || !strings.EqualFold(authorization[0][:len(scheme)], scheme) {
		return Digest{}, false
	}
	return DigestOfSecret(strings.TrimLeft(authorization[0][len(scheme):], " "))
}

// DigestOfSecret returns the digest of a secret that a caller sent. ok is false if no token has
// such a secret: it is empty, has more than 256 bytes, or a byte that is not visible ASCII. It does
// not allocate.
func DigestOfSecret(secret string) (digest Digest, ok bool) {
	if secret == "" || len(secret) > longestSecret {
		return Digest{}, false
	}
	for i := range len(secret) {
		if secret[i] <= ' ' || secret[i] > '~' {
			return Digest{}, false
		}
	}
	var buf [longestSecret]byte // a conversion would allocate
	return sha256.Sum256(buf[:copy(buf[:], secret)]), true
}

// allow implements [Tokens.Allow].
func (s *set) allow(now func() time.Time, authorization []string, scope, counter string) (who Identity, err error) {
	digest, ok := bearer(authorization)
	if !ok {
		return who, errUnauthorized
	}
	return s.allowDigest(now, &digest, scope, counter)
}

// allowDigest implements [Tokens.AllowDigest].
func (s *set) allowDigest(now func() time.Time, digest *Digest, scope, counter string) (who Identity, err error) {
	c := s.find(digest)
	switch {
	case c == nil && !s.complete:
		return who, errStarting
	case c == nil || !c.usable(now):
		return who, errUnauthorized
	case !c.rights.allow(scope, counter):
		return c.Identity, forbidden(scope, counter)
	}
	return c.Identity, nil
}

// longestCounter is the longest name of a counter without a period, in bytes.
const longestCounter = seqd.MaxNameLength + len("/") + seqd.MaxKeyLength

func forbidden(scope, counter string) *seqd.Error {
	if scope == ScopeIssue {
		return seqd.Errorf(seqd.CodeForbidden, "the token has no scope that allows issue:%.*s", longestCounter, counter)
	}
	if scope == ScopeLease {
		return seqd.Errorf(seqd.CodeForbidden, "the token has no scope that allows lease:%.*s", seqd.MaxNameLength, counter)
	}
	return seqd.Errorf(seqd.CodeForbidden, "the token does not have the scope %s", scope)
}
