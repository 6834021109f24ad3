package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"
)

// secret is what the browser of a session has: the value of its cookie. Nothing else has it, so the
// token in the store is of no use without the browser, nor the cookie without the store.
type secret [32]byte

// encoding is the encoding of secrets and of what is sealed: each has one form.
var encoding = base64.RawURLEncoding.Strict()

func newSecret() (s secret) {
	_, _ = rand.Read(s[:]) // it never fails
	return s
}

// readSecret returns the secret in the value of a cookie.
func readSecret(cookie string) (s secret, ok bool) {
	if len(cookie) != encoding.EncodedLen(len(s)) {
		return s, false
	}
	n, err := encoding.Decode(s[:], []byte(cookie))
	return s, err == nil && n == len(s)
}

// cookie is the value of the cookie.
func (s *secret) cookie() string { return encoding.EncodeToString(s[:]) }

// key is the key of the session's document. The secret does not follow from it.
func (s *secret) key() string {
	sum := sha256.Sum256([]byte(s.cookie()))
	return hex.EncodeToString(sum[:])
}

// cipher returns what seals the document of the session.
func (s *secret) cipher() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, s[:], nil, "seqd console session", sha256.Size)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// session is what is sealed.
type session struct {
	// Token is the secret of the token that somebody signed in with.
	Token string `json:"token"`
	// Expires is when the session ends, in ms since the Unix epoch.
	Expires int64 `json:"expires"`
}

// over reports whether the session has ended.
func (s *session) over(now time.Time) bool { return now.UnixMilli() >= s.Expires }

// seal returns the body of the session's document.
func (s *secret) seal(of session) (body string, err error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	c, err := s.cipher()
	if err != nil {
		return "", err
	}
	return encoding.EncodeToString(c.Seal(nil, nil, text, nil)), nil
}

// open is the inverse of seal. ok is false if the body was not made by it for this secret.
func (s *secret) open(body string) (of session, ok bool) {
	sealed, err := encoding.DecodeString(body)
	if err != nil {
		return of, false
	}
	c, err := s.cipher()
	if err != nil {
		return of, false
	}
	text, err := c.Open(nil, nil, sealed, nil)
	return of, err == nil && json.Unmarshal(text, &of) == nil
}
