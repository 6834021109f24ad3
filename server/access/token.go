// Package access says who may call: the tokens that are known, what each of them allows, and how
// they change while seqd runs.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seqd/seqd"
)

// Where a token comes from.
const (
	FromConfig = "config"
	FromAPI    = "api"
)

// SecretPrefix begins every secret that seqd makes, so that people and scanners know one when they
// see it.
const SecretPrefix = "seqd_"

// secretBytes is how many random bytes a secret has.
const secretBytes = 32

// Token is what a caller proves itself with. The secret is not kept, only its SHA-256.
type Token struct {
	// Name is what logs, limits and histories know the caller by: as that of a biz type,
	// [A-Za-z][A-Za-z0-9._-]{0,63}.
	Name string
	// Sha256 is that of the secret.
	Sha256 Digest
	// Scopes are what it allows, at least one: see [CheckScope].
	Scopes []string
	// Expires is when it stops to count, to the millisecond; the zero time for never.
	Expires time.Time
	// Enabled is false for a token that is switched off.
	Enabled bool
	// Source is FromConfig or FromAPI.
	Source string
	// Revision and Updated are those of the document of a token of the API: how often and when it
	// was written.
	Revision int64
	Updated  time.Time
}

// mostScopes is how many scopes a token can have.
const mostScopes = 100

// Validate implements [seqd.Validator]. It never repeats a value: people put secrets into wrong
// places.
func (t Token) Validate() (problems []seqd.Problem) {
	wrong := func(key, text string) { problems = append(problems, seqd.Problem{Key: key, Text: text}) }
	if seqd.CheckName(t.Name) != nil {
		wrong("name", "it is not a letter followed by at most 63 letters, digits, '.', '_' or '-'")
	}
	if t.Sha256 == (Digest{}) {
		wrong("sha256", "there is none: it is the SHA-256 of the secret; seqd token makes both")
	}
	switch {
	case len(t.Scopes) == 0:
		wrong("scopes", "there is none, so the token would allow nothing: give it issue:*, issue:<biz type>, read or admin")
	case len(t.Scopes) > mostScopes:
		wrong("scopes", fmt.Sprintf("there are %d, more than %d", len(t.Scopes), mostScopes))
	default:
		for i, scope := range t.Scopes {
			if err := CheckScope(scope); err != nil {
				wrong(fmt.Sprintf("scopes[%d]", i), err.Error())
			}
		}
	}
	if !t.Expires.IsZero() && !inYears(t.Expires) {
		wrong("expires", errYear.Error())
	}
	return problems
}

// Digest is a SHA-256. It does not print itself.
type Digest [sha256.Size]byte

// DigestOf returns the SHA-256 of a secret.
func DigestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }

// errDigest does not say what was there instead: it may be the secret itself.
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

// Hex returns the digest as the configuration has it.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// String keeps digests out of logs.
func (Digest) String() string { return "(not shown)" }

// GoString keeps digests out of logs.
func (Digest) GoString() string { return "(not shown)" }

// NewSecret makes a secret of 256 random bits.
func NewSecret() (secret string, digest Digest) {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails, see crypto/rand
	secret = SecretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	return secret, DigestOf(secret)
}

// Expiry is a time as configurations and requests write it.
type Expiry struct{ time.Time }

// UnmarshalText implements [encoding.TextUnmarshaler] for a time of RFC 3339. Parts of a
// millisecond are cut off.
func (e *Expiry) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return errors.New("it is not a time of RFC 3339, such as 2027-01-31T00:00:00Z")
	}
	if !inYears(t) { // the zero time among them, which would mean never
		return errYear
	}
	e.Time = t.UTC().Truncate(time.Millisecond)
	return nil
}

var errYear = errors.New("its year is outside 1971 to 9999")

func inYears(t time.Time) bool { return t.UTC().Year() >= 1971 && t.UTC().Year() <= 9999 }

// Kinds of scopes.
const (
	ScopeAdmin = "admin"
	ScopeRead  = "read"
	ScopeIssue = "issue"
)

// issuePrefix begins a scope that allows issuing.
const issuePrefix = ScopeIssue + ":"

// CheckScope returns nil for admin, read, or issue:<glob>, where the glob is the name of a biz type
// in which * stands for any run of characters.
func CheckScope(scope string) error {
	if scope == ScopeAdmin || scope == ScopeRead {
		return nil
	}
	glob, issue := strings.CutPrefix(scope, issuePrefix)
	// With a letter for each star it must be like a name; a star may also stand where a name has
	// its first letter.
	if !issue || seqd.CheckName(strings.ReplaceAll(glob, "*", "x")) != nil {
		return errors.New("it is not admin, read, or issue:<biz type> in which * stands for any characters")
	}
	return nil
}

// rights are what the scopes of a token allow.
type rights struct {
	admin, read bool
	issue       []string // globs
}

func rightsOf(scopes []string) (r rights) {
	for _, scope := range scopes {
		switch glob, issue := strings.CutPrefix(scope, issuePrefix); {
		case issue:
			r.issue = append(r.issue, glob)
		case scope == ScopeAdmin:
			r.admin, r.read = true, true
		case scope == ScopeRead:
			r.read = true
		}
	}
	return r
}

// allow reports whether a request may go on that needs a scope: for issuing, that of a biz type.
// Without a scope every token will do; a scope that is not known is allowed to nobody.
func (r *rights) allow(scope, bizType string) bool {
	switch scope {
	case "":
		return true
	case ScopeRead:
		return r.read
	case ScopeAdmin:
		return r.admin
	case ScopeIssue:
		for _, glob := range r.issue {
			if match(glob, bizType) {
				return true
			}
		}
	}
	return false
}

// match reports whether name is what a glob says. It goes back only to the latest star, which is
// enough: an earlier one could only take less.
func match(glob, name string) bool {
	star, resume := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, resume = g, n
			g++
		case g < len(glob) && glob[g] == name[n]:
			g, n = g+1, n+1
		case star >= 0:
			resume++
			g, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
