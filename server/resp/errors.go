package resp

import (
	"errors"

	"github.com/seqd/seqd"
)

// words are the first words of errors, which clients of Redis branch on. Any other code has ERR.
// LOADING and TRYAGAIN are for refusals that another attempt may not get; some clients make it
// themselves.
var words = map[seqd.Code]string{
	seqd.CodeUnauthorized: "NOAUTH",
	seqd.CodeForbidden:    "NOPERM",

	seqd.CodeStarting:    "LOADING",
	seqd.CodeOverloaded:  "BUSY",
	seqd.CodeRateLimited: "BUSY",

	seqd.CodeStopping:         "TRYAGAIN",
	seqd.CodeStoreUnavailable: "TRYAGAIN",
	seqd.CodeRedisUnavailable: "TRYAGAIN",
	seqd.CodeClockRollback:    "TRYAGAIN",
	seqd.CodeNoMachineID:      "TRYAGAIN",
	seqd.CodeTimeout:          "TRYAGAIN",
}

// needsToken is the text of an error for a client without a valid token. HTTP says it in its own
// words.
const needsToken = "Authentication required: a valid token is needed, as AUTH <token>"

// appendError appends an error: a word, its code and what it says.
func appendError(dst []byte, err error) []byte {
	e := seqd.AsError(err)
	word, detail := words[e.Code], e.Detail
	var protocol protocolError
	switch {
	case errors.As(err, &protocol):
		word, detail = "ERR", protocol.Error()
	case e == errWrongPass:
		word = "WRONGPASS"
	case e == errNoProto:
		word = "NOPROTO"
	case e.Code == seqd.CodeUnauthorized:
		detail = needsToken
	case word == "":
		word = "ERR"
	}
	dst = append(dst, '-')
	dst = append(dst, word...)
	dst = append(dst, ' ')
	if protocol == "" {
		dst = append(dst, e.Code...)
		dst = append(dst, ": "...)
	}
	dst = appendLine(dst, detail)
	return append(dst, crlf...)
}

// longestDetail bounds the text of an error.
const longestDetail = 1024

// appendLine appends text without what would end a line.
func appendLine(dst []byte, text string) []byte {
	for i := range min(len(text), longestDetail) {
		c := text[i]
		if c < ' ' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}
