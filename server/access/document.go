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
	Sha256  string   `json:"sha256"`
	Scopes  []string `json:"scopes"`
	Expires string   `json:"expires,omitempty"` // RFC 3339
	Enabled bool     `json:"enabled"`
}

// documentOf returns the document of a token.
func documentOf(t Token) persist.Document {
	b := body{Sha256: t.Sha256.Hex(), Scopes: t.Scopes, Enabled: t.Enabled}
	if !t.Expires.IsZero() {
		b.Expires = t.Expires.UTC().Format(time.RFC3339Nano)
	}
	text, _ := json.Marshal(b) // it never fails
	return persist.Document{Kind: Kind, Key: t.Name, Revision: t.Revision, Body: string(text), Timestamp: t.Updated.UnixMilli()}
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
		Name: doc.Key, Scopes: b.Scopes, Enabled: b.Enabled, Source: FromAPI, Revision: doc.Revision, Updated: time.UnixMilli(doc.Timestamp).UTC(),
	}
	if err := t.Sha256.UnmarshalText([]byte(b.Sha256)); err != nil {
		return t, fmt.Errorf("sha256: %w", err)
	}
	if b.Expires != "" {
		var e Expiry
		if err := e.UnmarshalText([]byte(b.Expires)); err != nil {
			return t, fmt.Errorf("expires: %w", err)
		}
		t.Expires = e.Time
	}
	for _, problem := range t.Validate() {
		return t, fmt.Errorf("%s: %s", problem.Key, problem.Text)
	}
	return t, nil
}
