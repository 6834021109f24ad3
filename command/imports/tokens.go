package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Token is a token of the configuration. It has the SHA-256 of a secret, and not the secret.
type Token struct {
	Name   string   `json:"name"`
	Sha256 string   `json:"-"`
	Scopes []string `json:"scopes"`
}

// Bounds of tokens, as package access has them.
const (
	mostScopes    = 100
	longestSecret = 256
)

// TokensOf makes tokens of grants. Each allows the biz types that are imported under their names. Its
// name is made of the lowest ID of its rows, so that it stays the same. refused says which rows have
// no token, and why.
func TokensOf(grants []Grant, items []Item) (tokens []Token, refused []string) {
	names := make(map[string]string)
	for _, item := range items {
		if item.Result != Refused {
			names[item.From] = item.Name
		}
	}
	grants = slices.Clone(grants)
	slices.SortFunc(grants, func(a, b Grant) int { return int(min(max(a.ID-b.ID, -1), 1)) })
	index := make(map[Secret]int)
	for _, g := range grants {
		name, known := names[g.BizType]
		switch {
		case !known:
			refused = append(refused, fmt.Sprintf("the token of row %d is for %q, which is not imported", g.ID, g.BizType))
			continue
		case !usable(g.Token):
			refused = append(refused, fmt.Sprintf("the token of row %d cannot be one of seqd: it has spaces or other characters than visible ASCII, none, or more than %d", g.ID, longestSecret))
			continue
		}
		i, seen := index[g.Token]
		if !seen {
			i = len(tokens)
			index[g.Token] = i
			digest := sha256.Sum256([]byte(g.Token.text))
			tokens = append(tokens, Token{Name: fmt.Sprintf("tinyid-%d", g.ID), Sha256: hex.EncodeToString(digest[:])})
		}
		scope := "issue:" + name
		if slices.Contains(tokens[i].Scopes, scope) {
			continue
		}
		if len(tokens[i].Scopes) == mostScopes {
			refused = append(refused, fmt.Sprintf("the token of row %d has more than %d biz types: %q is left out", g.ID, mostScopes, name))
			continue
		}
		tokens[i].Scopes = append(tokens[i].Scopes, scope)
	}
	return tokens, refused
}

// usable reports whether a secret can be sent in a header.
func usable(s Secret) bool {
	for _, c := range []byte(s.text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s.text != "" && len(s.text) <= longestSecret
}
