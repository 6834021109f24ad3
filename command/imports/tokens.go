package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// token is a token of the configuration. It has the SHA-256 of a secret, and not the secret.
type token struct {
	Name   string   `json:"name"`
	Sha256 string   `json:"-"`
	Scopes []string `json:"scopes"`
}

// Bounds of tokens, as package access has them.
const (
	mostScopes    = 100
	longestSecret = 256
)

// tokensOf makes tokens of grants. Each allows the biz types that are imported under their names.
// Its name is made of the lowest ID of its rows, so that it stays the same. refused says which rows
// have no token, and why.
func tokensOf(grants []grant, items []entry) (tokens []token, refused []string) {
	names := make(map[string]string)
	for _, item := range items {
		if item.Result != unfit {
			names[item.From] = item.Name
		}
	}
	grants = slices.Clone(grants)
	slices.SortFunc(grants, func(a, b grant) int { return int(min(max(a.ID-b.ID, -1), 1)) })
	index := make(map[hidden]int)
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
			tokens = append(tokens, token{Name: fmt.Sprintf("tinyid-%d", g.ID), Sha256: hex.EncodeToString(digest[:])})
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
func usable(s hidden) bool {
	for _, c := range []byte(s.text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s.text != "" && len(s.text) <= longestSecret
}
