package access

import (
	"context"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Made is a secret, and who has it.
type Made struct {
	Token string
	Secret
	// Deleted is whether the token was deleted with the secret, which was its last one.
	Deleted bool
}

// Made returns the secrets of the store that a token of this name has made, whether or not there
// still is one, or Nobody.
func (t *Tokens) Made(ctx context.Context, by string) (made []Made, err error) {
	store, err := t.documents()
	if err != nil {
		return nil, err
	}
	for doc, err := range persist.EveryDocument(ctx, store, Kind) {
		if err != nil {
			return nil, unavailable(err)
		}
		token, err := readDocument(doc)
		if err != nil {
			continue // it is refused, so it has no secret
		}
		for _, s := range token.Secrets {
			if s.madeBy(by) {
				made = append(made, Made{Token: token.Name, Secret: s})
			}
		}
	}
	return made, nil
}

// RevokeMade revokes what [Tokens.Made] returns, deletes the tokens that have no other secret, and
// revokes what these have made. It returns what it has revoked, with an error too: then it can be
// repeated.
func (t *Tokens) RevokeMade(ctx context.Context, by string) (revoked []Made, err error) {
	for makers := []string{by}; len(makers) > 0; makers = makers[1:] {
		made, err := t.Made(ctx, makers[0])
		if err != nil {
			return revoked, err
		}
		for _, of := range made { // a token with two of them is asked twice, the second time for nothing
			gone, err := t.revoke(ctx, of.Token, makers[0])
			revoked = append(revoked, gone...)
			if err != nil {
				return revoked, err
			}
			if len(gone) > 0 && gone[0].Deleted {
				makers = append(makers, of.Token)
			}
		}
	}
	return revoked, nil
}

// revoke revokes the secrets of a token that somebody has made.
func (t *Tokens) revoke(ctx context.Context, name, by string) (gone []Made, err error) {
	all := false
	edit := func(token *Token) error {
		gone = nil
		var kept []Secret
		for _, s := range token.Secrets {
			if s.madeBy(by) {
				gone = append(gone, Made{Token: name, Secret: s})
			} else {
				kept = append(kept, s)
			}
		}
		if len(gone) == 0 {
			return errNoSecret // somebody else has revoked them
		}
		if all = len(kept) == 0; !all {
			token.Secrets = kept
		}
		for i := range gone {
			gone[i].Deleted = all
		}
		return nil
	}
	err = t.attempts(ctx, name, edit, func(store persist.Documents, token Token) (*Token, error) {
		if all {
			return nil, t.remove(ctx, store, &token)
		}
		return t.update(ctx, store, &token)
	})
	if seqd.CodeOf(err) == seqd.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		gone = nil
	}
	return gone, err
}
