package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seqd/seqd/persist"
)

// body is the JSON in the document of a token.
type body struct {
	// Sha256 is the only secret of a token that an earlier version made. It has no ID.
	Sha256   string       `json:"sha256,omitempty"`
	ID       string       `json:"id,omitempty"`
	OwnsOpen bool         `json:"ownsOpen,omitempty"`
	Secrets  []secretBody `json:"secrets,omitempty"`
	Scopes   []string     `json:"scopes"`
	Expires  string       `json:"expires,omitempty"` // RFC 3339
	Enabled  bool         `json:"enabled"`
}

// secretBody is a secret in a document.
type secretBody struct {
	Sha256  string `json:"sha256"`
	Made    string `json:"made,omitempty"` // RFC 3339, as Expires
	By      string `json:"by,omitempty"`
	Expires string `json:"expires,omitempty"`
}

// goneBody is the body of the document that a deleted token leaves for gonePeriod. Revisions of its
// name continue from there, so a change of the deleted token does not fit a token that is made in
// its place.
const (
	goneBody   = `{"deleted":true}`
	gonePeriod = time.Hour
)

// IsGone reports whether a document is what a deleted token left.
func IsGone(doc persist.Document) bool { return doc.Body == goneBody }

// goneOf returns the document that a token leaves that is deleted now. latest is the later of the
// times of this node and of the store: so one wrong clock ends nothing early.
func goneOf(t Token, now time.Time, latest int64) persist.Document {
	return persist.Document{
		Kind: Kind, Key: t.Name, Revision: t.Revision + 1, Body: goneBody, Timestamp: now.UnixMilli(), Expires: latest + gonePeriod.Milliseconds(),
	}
}

// documentOf returns the document of a token.
func documentOf(t Token) persist.Document {
	b := body{ID: t.ID, OwnsOpen: t.OwnsOpen, Scopes: t.Scopes, Expires: timeText(t.Expires), Enabled: t.Enabled}
	if t.ID == "" && !t.OwnsOpen && len(t.Secrets) == 1 && t.Secrets[0] == (Secret{Sha256: t.Secrets[0].Sha256}) {
		b.Sha256 = t.Secrets[0].Sha256.Hex() // nodes of that version may still run
		t.Secrets = nil
	}
	for _, s := range t.Secrets {
		b.Secrets = append(b.Secrets, secretBody{Sha256: s.Sha256.Hex(), Made: timeText(s.Made), By: s.By, Expires: timeText(s.Expires)})
	}
	text, _ := json.Marshal(b) // it never fails
	return persist.Document{Kind: Kind, Key: t.Name, Revision: t.Revision, Body: string(text), Timestamp: t.Updated.UnixMilli()}
}

// timeText returns a time in a document, "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// readTime is the inverse of timeText.
func readTime(key, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var e Expiry
	if err := e.UnmarshalText([]byte(text)); err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", key, err)
	}
	return e.Time, nil
}

// readDocument is the inverse of documentOf. It rejects anything it does not understand, including
// unknown keys, which a newer seqd may have added. Its errors contain no values from the document.
func readDocument(doc persist.Document) (t Token, err error) {
	var b body
	decoder := json.NewDecoder(bytes.NewReader([]byte(doc.Body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return t, fmt.Errorf("the document is not that of a token: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("there is something after the end of the document")
	}
	t = Token{
		Name: doc.Key, ID: b.ID, OwnsOpen: b.OwnsOpen, Scopes: b.Scopes, Enabled: b.Enabled, Source: FromAPI, Revision: doc.Revision, Updated: time.UnixMilli(doc.Timestamp).UTC(),
	}
	if b.Sha256 != "" {
		b.Secrets = append(b.Secrets, secretBody{Sha256: b.Sha256})
	}
	for _, s := range b.Secrets {
		secret, err := s.read()
		if err != nil {
			return t, err
		}
		t.Secrets = append(t.Secrets, secret)
	}

	if t.Expires, err = readTime("expires", b.Expires); err != nil {
		return t, err
	}
	for _, problem := range t.Validate() {
		return t, fmt.Errorf("%s: %s", problem.Key, problem.Text)
	}
	return t, nil
}

func (b *secretBody) read() (s Secret, err error) {
	if err = s.Sha256.UnmarshalText([]byte(b.Sha256)); err != nil {
		return s, fmt.Errorf("sha256: %w", err)
	}
	if s.Made, err = readTime("made", b.Made); err != nil {
		return s, err
	}
	s.By = b.By
	s.Expires, err = readTime("expires", b.Expires)
	return s, err
}
