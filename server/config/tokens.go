package config

import (
	"fmt"
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
	var only access.Digest
	values = l.once(path+".", values)
	secrets, several := takeKey(values, "secrets")
	l.takeAllQuietly(values, path, "a token", hiddenKeys{
		{"name", &t.Name}, {"sha256", &only}, {"scopes", &t.Scopes}, {"expires", &expires}, {"enabled", &t.Enabled}, {"ownsOpen", &t.OwnsOpen},
	})
	t.Expires = expires.Time
	if only != (access.Digest{}) {
		t.Secrets = []access.Secret{{Sha256: only}}
	}
	if several {
		l.list(path+".secrets", secrets, func(i int, item any) {
			if s := l.secret(fmt.Sprintf("%s.secrets[%d]", path, i), item); s.Sha256 != (access.Digest{}) {
				t.Secrets = append(t.Secrets, s)
			}
		})
	}
	return t
}

// secret decodes one of several secrets of a token.
func (l *loader) secret(path string, raw any) (s access.Secret) {
	values, ok := raw.(map[string]any)
	if !ok {
		l.add(path, wrongKind("a section with sha256", raw))
		return s
	}
	var expires access.Expiry
	l.takeAllQuietly(l.once(path+".", values), path, "a secret", hiddenKeys{{"sha256", &s.Sha256}, {"expires", &expires}})
	l.check(s.Sha256 != (access.Digest{}) || l.has(path+".sha256"), path+".sha256", "there is none: it is the SHA-256 of the secret; seqd token makes both")
	s.Expires = expires.Time
	return s
}

// hiddenKeys are the keys of a section whose values no message may show, and where they go.
type hiddenKeys []struct {
	name  string
	field any
}

// takeAllQuietly takes all values of a section of an owner.
func (l *loader) takeAllQuietly(values map[string]any, path, owner string, keys hiddenKeys) {
	for _, k := range keys {
		l.takeQuietly(values, path, k.name, k.field)
	}
	l.rest(values, path, owner)
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
	} else if reflect.ValueOf(raw).Kind() == reflect.String { // text or a number
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
		names[t.Name] = i
		for _, s := range t.Secrets {
			if first, twice := digests[s.Sha256]; twice && s.Sha256 != (access.Digest{}) {
				p.check(false, tokenPath(i)+".sha256", "it is already that of %s: each token needs secrets of its own", tokenPath(first))
			}
			digests[s.Sha256] = i
		}
	}
}
