package httpapi_test

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestTokenValues checks what a caller is told of a value of the wrong kind.
func TestTokenValues(t *testing.T) {
	api := newGuarded(t)
	for body, want := range map[string]string{
		`{"name":7,"scopes":["read"]}`:                                      "name: it is not text",
		`{"name":"new","scopes":"read"}`:                                    "scopes: it is not a list of text",
		`{"name":"new","scopes":[null]}`:                                    "scopes: it is not a list of text",
		`{"name":"new","scopes":["read"],"enabled":"x"}`:                    "enabled: it is not true or false",
		`{"name":"new","scopes":["read"],"expires":5}`:                      "expires: it is not text or null",
		`{"name":"new","scopes":["read"],"expires":"tomorrow"}`:             "expires: it is not a time of RFC 3339, such as 2027-01-31T00:00:00Z",
		`{"name":"new","scopes":["read"],"expires":"1970-12-31T23:59:59Z"}`: "expires: its year is outside 1971 to 9999",
	} {
		must.Equal(t, wantProblem(t, send(t, api, "POST", "/tokens", body), 400, "invalid_request").Detail, want, "%s", body)
	}
}
