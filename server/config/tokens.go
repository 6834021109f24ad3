package config

import (
	"reflect"

	"github.com/seqd/seqd/server/access"
)

// tokens decodes the list of tokens. No message shows a value of it: a misplaced one may be a
// secret.
func (l *loader) tokens(raw any) (tokens []access.Token) {
	l.list(tokensKey, raw, func(i int, item any) {
		tokens = append(tokens, l.token(tokenPath(i), item))
	})
	return tokens
}

func (l *loader) token(path string, raw any) (t access.Token) {
	t.Enabled, t.Source = true, access.FromConfig
	values, ok := raw.(map[string]any)
	if !ok {
		l.add(path, wrongKind("a section with name, sha256 and scopes", raw))
		return t
	}
	var expires access.Expiry
	values = l.once(path+".", values)
	for _, k := range []struct {
		name  string
		field any
	}{{"name", &t.Name}, {"sha256", &t.Sha256}, {"scopes", &t.Scopes}, {"expires", &expires}, {"enabled", &t.Enabled}} {
		l.takeQuietly(values, path, k.name, k.field)
	}
	l.rest(values, path, "a token")
	t.Expires = expires.Time
	return t
}

// kinds is what a field of a token must be, as its message says it.
var kinds = map[reflect.Kind]string{reflect.String: "text", reflect.Slice: "a list of text", reflect.Bool: "true or false"}

// takeQuietly is take for a value that no message may show.
func (l *loader) takeQuietly(values map[string]any, path, name string, field any) {
	raw, ok := takeKey(values, name)
	if !ok {
		return
	}
	to := reflect.ValueOf(field).Elem()
	if err := assign(to, raw); err == nil {
		return
	} else if kind, plain := kinds[to.Kind()]; plain {
		l.check(false, path+"."+name, "its value, which is not shown, is not %s", kind)
	} else if _, isText := raw.(string); isText {
		l.add(path+"."+name, err) // which says what the form is, and shows nothing
	} else {
		l.check(false, path+"."+name, "its value, which is not shown, is not text; put it between quotes")
	}
}

// validate checks who may call. Its messages show no values either, except good names.
func (a *Auth) validate(p *problems) {
	p.oneOf("auth.mode", a.Mode, "auto", "token", "none")
	names, digests := make(map[string]int, len(a.Tokens)), make(map[access.Digest]int, len(a.Tokens))
	for i, t := range a.Tokens {
		if !p.has(tokenPath(i)) {
			p.settings(tokenPath(i)+".", t)
		}
		if first, twice := names[t.Name]; twice && t.Name != "" {
			p.check(false, tokenPath(i)+".name", "it is already the name of %s", tokenPath(first))
		}
		if first, twice := digests[t.Sha256]; twice && t.Sha256 != (access.Digest{}) {
			p.check(false, tokenPath(i)+".sha256", "it is already that of %s: each token needs a secret of its own", tokenPath(first))
		}
		names[t.Name], digests[t.Sha256] = i, i
	}
}
