// Package access authenticates callers by bearer tokens and authorizes them by scopes.
//   - [Token] is one token: a name, the digests of its secrets, an owner, and scopes.
//   - [Tokens] holds all tokens. Its method Allow checks a request; the others manage tokens in the
//     store while seqd runs.
//
// Tokens come from the configuration, which only a reload changes, or from the store. To add a kind of
// scope, extend [CheckScope] and the type rights.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/glob"
	"github.com/seqd/seqd/internal/literal"
)

// Values of [Token].Source.
const (
	FromConfig = "config"
	FromAPI    = "api"
)

// SecretPrefix starts every secret that seqd generates, so that people and secret scanners
// recognise one.
const SecretPrefix = "seqd_"

// secretBytes is the number of random bytes in a secret.
const secretBytes = 32

// Token authenticates a caller by one of its secrets.
type Token struct {
	// Name identifies the caller in logs, limits and histories. It follows the rules for names of
	// biz types: [A-Za-z][A-Za-z0-9._-]{0,63}.
	Name string
	// ID tells the token from others that had its name before: "" for a token of the configuration,
	// and for one that an earlier version made. It stays when secrets change.
	ID string
	// OwnsOpen means that the token owns what was made while nobody was asked for a token, and not
	// what its name and ID own.
	OwnsOpen bool
	// Secrets are 1 to 10. A caller gets a new one before the old one is removed.
	Secrets []Secret
	// Scopes says what the token allows. There is at least one; see [CheckScope].
	Scopes []string
	// Expires is when the token stops being valid, to the millisecond. The zero time means never.
	Expires time.Time
	// Enabled is false for a token that is switched off.
	Enabled bool
	// Source is FromConfig or FromAPI.
	Source string
	// Revision and Updated are the version of the token's document and when it was written. They
	// are zero for a token of the configuration.
	Revision int64
	Updated  time.Time
}

// Limits of a token.
const (
	mostScopes  = 100
	mostSecrets = 10
)

// Secret is one secret of a token. Only its SHA-256 is kept.
type Secret struct {
	Sha256 Digest
	// Made is when it was made, zero if that is not known.
	Made time.Time
	// By is the owner of the token that made it, or Nobody if nobody was asked for a token then. It
	// is "" in the configuration, and if an earlier version made it.
	By string
	// Expires is when it stops being valid, to the millisecond. The zero time means never.
	Expires time.Time
}

// Nobody is who made a secret while nobody was asked for a token. No token has this name.
const Nobody = "~"

// madeBy reports whether a token of this name has made the secret, or Nobody.
func (s *Secret) madeBy(name string) bool {
	return s.By != "" && (s.By == name || seqd.OwnerName(s.By) == name)
}

// ID names a secret of the store, which is 256 random bits: so its ID tells nothing about it.
// Whoever knows the ID of another one could try what people make up: see [Token.SecretID].
func (s *Secret) ID() string {
	sum := sha256.Sum256(s.Sha256[:])
	return hex.EncodeToString(sum[:6])
}

// SecretID names a secret of the token: its place if the configuration has it, which people may
// have made up, and otherwise its [Secret.ID].
func (t *Token) SecretID(i int) string {
	if t.Source == FromConfig {
		return fmt.Sprintf("%012x", i+1)
	}
	return t.Secrets[i].ID()
}

// SecretOf returns a list of one secret that never expires.
func SecretOf(secret string) []Secret { return []Secret{{Sha256: DigestOf(secret)}} }

// Identity says who calls.
type Identity struct {
	Name  string // of the token
	Owner string // see [seqd.Caller]
}

// Identity returns who calls with the token.
func (t *Token) Identity() Identity {
	if t.OwnsOpen {
		return Identity{Name: t.Name, Owner: seqd.OpenOwnerOf(t.Name)}
	}
	return Identity{Name: t.Name, Owner: seqd.OwnerOf(t.Name, t.ID)}
}

// Validate implements [seqd.Validator]. Its problems never contain a value, because people put
// secrets into wrong places.
func (t Token) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	check(seqd.CheckName(t.Name) == nil, "name", "it is not a letter followed by at most 63 letters, digits, '.', '_' or '-'")
	check(len(t.Secrets) > 0 && !slices.ContainsFunc(t.Secrets, func(s Secret) bool { return s.Sha256 == Digest{} }),
		"sha256", "there is none: it is the SHA-256 of the secret; seqd token makes both")
	check(len(t.Secrets) <= mostSecrets, "secrets", "there are %d, more than %d", len(t.Secrets), mostSecrets)
	check(len(t.Scopes) > 0, "scopes", "there is none, so the token would allow nothing: give it issue:*, issue:<biz type>, issue:<biz type>/<key>, lease:<pool>, read or admin")
	check(len(t.Scopes) <= mostScopes, "scopes", "there are %d, more than %d", len(t.Scopes), mostScopes)
	if len(t.Scopes) <= mostScopes {
		for i, scope := range t.Scopes {
			problems.Add(fmt.Sprintf("scopes[%d]", i), CheckScope(scope))
		}
	}
	for _, s := range t.Secrets {
		check(s.Expires.IsZero() || inYears(s.Expires), "secrets", "%v", errYear)
	}
	check(t.Expires.IsZero() || inYears(t.Expires), "expires", "%v", errYear)
	return problems
}

// Digest is a SHA-256. It does not print its value.
type Digest [sha256.Size]byte

// DigestOf returns the SHA-256 of a secret.
func DigestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }

// errDigest does not show the value, which may be the secret itself.
var errDigest = errors.New("its value, which is not shown, is not the 64 hexadecimal digits of a SHA-256; a secret does not belong here: seqd token makes one with its SHA-256")

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	var read Digest
	if len(text) != hex.EncodedLen(len(read)) {
		return errDigest
	}
	if _, err := hex.Decode(read[:], text); err != nil {
		return errDigest
	}
	*d = read
	return nil
}

// Hex returns the digest as hexadecimal digits, as in the configuration.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// String keeps digests out of logs.
func (Digest) String() string { return "(not shown)" }

// GoString keeps digests out of logs.
func (Digest) GoString() string { return "(not shown)" }

// NewSecret returns a new secret of 256 random bits and its digest.
func NewSecret() (secret string, digest Digest) {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	secret = SecretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	return secret, DigestOf(secret)
}

// Expiry is a time as written in configurations and requests.
type Expiry struct{ time.Time }

// UnmarshalText implements [encoding.TextUnmarshaler] for RFC 3339. It truncates to milliseconds.
func (e *Expiry) UnmarshalText(text []byte) error {
	t, ok := literal.Time(string(text))
	if !ok {
		return errors.New("it is not a time of RFC 3339, such as 2027-01-31T00:00:00Z")
	}
	if !inYears(t) { // this rejects the zero time too, which would mean never
		return errYear
	}
	e.Time = t.UTC().Truncate(time.Millisecond)
	return nil
}

var errYear = errors.New("its year is outside 1971 to 9999")

func inYears(t time.Time) bool { return t.UTC().Year() >= 1971 && t.UTC().Year() <= 9999 }

// Kinds of scopes. An issue scope is followed by a colon and the counters that it covers, a lease
// scope by a colon and the pools of worker IDs.
const (
	ScopeAdmin = "admin"
	ScopeRead  = "read"
	ScopeIssue = "issue"
	ScopeLease = "lease"
)

// issuePrefix begins a scope that allows issuing, and leasePrefix one that allows leasing.
const (
	issuePrefix = ScopeIssue + ":"
	leasePrefix = ScopeLease + ":"
)

// CheckScope returns nil for admin, read, issue:<biz type>, issue:<biz type>/<key> and
// lease:<pool>. In a biz type, a key and a pool, * stands for any run of characters.
func CheckScope(scope string) error {
	if scope == ScopeAdmin || scope == ScopeRead {
		return nil
	}
	if pool, lease := strings.CutPrefix(scope, leasePrefix); lease && seqd.CheckName(strings.ReplaceAll(pool, "*", "x")) == nil {
		return nil
	}
	glob, issue := strings.CutPrefix(scope, issuePrefix)
	bizType, key, keyed := strings.Cut(strings.ReplaceAll(glob, "*", "x"), "/")
	// With a letter for each star, both must be valid names.
	if !issue || seqd.CheckName(bizType) != nil || keyed && seqd.CheckKey(key) != nil {
		return errors.New("it is not admin, read, issue:<biz type>, issue:<biz type>/<key> or lease:<pool>, in which * stands for any characters")
	}
	return nil
}

// rights is what the scopes of a token allow.
type rights struct {
	admin, read bool
	issue       []counters
	lease       []string // globs of pools
}

// counters is what one scope issue:… covers: a biz type with all its keys, or only keys of it.
type counters struct {
	bizType, key string // globs
	keyed        bool   // only keys that match key
}

// cover reports whether the counter of a biz type, or of one of its keys, is covered.
func (c *counters) cover(counter string) bool {
	bizType, key, keyed := strings.Cut(counter, "/")
	if !c.keyed {
		return glob.Match(c.bizType, bizType)
	}
	return keyed && !strings.Contains(key, "/") && glob.Match(c.bizType, bizType) && glob.Match(c.key, key)
}

func rightsOf(scopes []string) (r rights) {
	for _, scope := range scopes {
		glob, issue := strings.CutPrefix(scope, issuePrefix)
		pool, lease := strings.CutPrefix(scope, leasePrefix)
		switch {
		case lease:
			r.lease = append(r.lease, pool)
		case issue:
			var c counters
			c.bizType, c.key, c.keyed = strings.Cut(glob, "/")
			r.issue = append(r.issue, c)
		case scope == ScopeAdmin:
			r.admin, r.read = true, true
		case scope == ScopeRead:
			r.read = true
		}
	}
	return r
}

// allow reports whether the token may make a request that needs scope. counter matters for the
// scopes issue and lease only, and is a pool for lease. An empty scope is allowed to every token, an
// unknown one to none.
func (r *rights) allow(scope, counter string) bool {
	switch scope {
	case "":
		return true
	case ScopeRead:
		return r.read
	case ScopeAdmin:
		return r.admin
	case ScopeIssue:
		for i := range r.issue {
			if r.issue[i].cover(counter) {
				return true
			}
		}
	case ScopeLease:
		return slices.ContainsFunc(r.lease, func(pool string) bool { return glob.Match(pool, counter) })
	}
	return false
}
