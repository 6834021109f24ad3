package access

import "github.com/seqd/seqd"

// AllowNamed checks whether the token of this name allows something, for callers who cannot send
// its secret. Its errors are those of [Tokens.Allow].
func (t *Tokens) AllowNamed(name, scope, counter string) error {
	s := t.memory.known.Load()
	c := s.byName[name]
	switch {
	case c == nil && !s.complete:
		return errStarting
	case c == nil || !c.usable(t.time):
		return seqd.Errorf(seqd.CodeUnauthorized, "there is no token %.*s that is enabled and has not expired", seqd.MaxNameLength, name)
	case !c.rights.allow(scope, counter):
		return forbidden(scope, counter)
	}
	return nil
}
