package console

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

const (
	// kind is the kind of the documents that are sessions.
	kind = "session"
	// rememberedFor is how long a session is let in after the store last confirmed it, if the store
	// does not answer: an operator must be able to look then.
	rememberedFor = 15 * time.Minute
	// mostRemembered is how many sessions are remembered.
	mostRemembered = 1000
	// readPatience bounds a look at the store. After one that failed, remembered sessions are let
	// in without another for readPause.
	readPatience = 2 * time.Second
	readPause    = time.Second
)

// errNoSession says that a browser is not signed in.
var errNoSession = seqd.Errorf(seqd.CodeUnauthorized, "the session has ended: sign in again")

// sessions are the sessions of all nodes, which the store keeps. It is safe for concurrent use.
type sessions struct {
	now    func() time.Time // of this node
	clock  func() time.Time // of all nodes
	log    *slog.Logger
	opened func() (documents persist.Documents, node string) // see [Options]
	// strangers limits how often callers make this node ask the store for sessions that do not
	// exist.
	strangers *limiter

	mu     sync.Mutex      // guards what follows
	seen   map[string]seen // by key
	ends   int             // how many sessions ended by a sign-out here
	failed time.Time       // when the store last did not answer
}

// seen is the document of a session as the store had it at some time.
type seen struct {
	body string
	at   time.Time
}

func newSessions(opts Options) *sessions {
	s := &sessions{now: opts.Now, clock: opts.Clock, log: opts.Log, opened: opts.Store, strangers: newLimiter(opts.Now, 30, 600), seen: make(map[string]seen)}
	// Somebody may have signed in on another node.
	s.strangers.first, s.strangers.most = true, 6000
	return s
}

// store returns the documents of the store.
func (s *sessions) store() (persist.Documents, error) {
	if documents, _ := s.opened(); documents != nil {
		return documents, nil
	}
	return nil, &seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting: the store is not open yet", RetryAfter: time.Second}
}

// create begins a session and returns its secret.
func (s *sessions) create(ctx context.Context, of session) (made secret, err error) {
	store, err := s.store()
	if err != nil {
		return made, err
	}
	made = newSecret()
	body, err := made.seal(of)
	if err != nil {
		return made, err
	}
	doc := persist.Document{
		Kind: kind, Key: made.key(), Revision: 1, Body: body, Timestamp: s.clock().UnixMilli(), Expires: of.Expires,
	}
	if err := store.Create(ctx, doc); err != nil {
		return made, unavailable("the store does not answer, so nobody can sign in now: try again soon", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = time.Time{}
	s.remember(doc.Key, body)
	return made, nil
}

// find returns the session of a cookie, or errNoSession. from is who sends the cookie. Other errors
// mean that it is not known whether there is such a session.
func (s *sessions) find(ctx context.Context, cookie, from string) (of session, err error) {
	secret, ok := readSecret(cookie)
	if !ok {
		return of, errNoSession
	}
	body, err := s.read(ctx, secret.key(), from)
	if err != nil {
		return of, err
	}
	if of, ok = secret.open(body); !ok || of.over(s.clock()) {
		return session{}, errNoSession
	}
	return of, nil
}

// read returns the body of a session's document.
func (s *sessions) read(ctx context.Context, key, from string) (body string, err error) {
	store, err := s.store()
	if err != nil {
		return "", err
	}
	body, ends, remembered, pause := s.recall(key)
	if pause {
		return body, nil
	}
	found := func() {}
	if !remembered {
		if found, err = s.strangers.take(from); err != nil {
			return "", err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	doc, err := store.Read(bounded, kind, key)
	switch {
	case err == nil:
		found()
		s.confirm(key, doc.Body, ends)
		return doc.Body, nil
	case errors.Is(err, persist.ErrNotFound), errors.Is(err, persist.ErrNewer), errors.Is(err, persist.ErrInvalid):
		s.forget(key)
		return "", errNoSession
	}
	found()
	if ctx.Err() == nil {
		s.noteFailure()
	}
	if remembered {
		return body, nil
	}
	return "", unavailable("the store does not answer, so it is not known who you are: try again soon", err)
}

// recall returns the body of a session that the store confirmed not long ago, and how many sessions
// have ended here so far. pause is true if the store did not answer a moment ago, and need not be
// asked again.
func (s *sessions) recall(key string) (body string, ends int, remembered, pause bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, remembered := s.seen[key]
	if remembered && s.now().Sub(known.at) >= rememberedFor {
		delete(s.seen, key)
		return "", s.ends, false, false
	}
	since := s.now().Sub(s.failed)
	return known.body, s.ends, remembered, remembered && since >= 0 && since < readPause
}

// confirm notes that the store has answered, and has a session. If one ended while the store was
// asked, it may be this one, so it is not remembered.
func (s *sessions) confirm(key, body string, ends int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = time.Time{}
	if s.ends == ends {
		s.remember(key, body)
	}
}

// remember keeps a session in memory. The caller holds mu.
func (s *sessions) remember(key, body string) {
	s.seen[key] = seen{body: body, at: s.now()}
	if len(s.seen) > mostRemembered {
		oldest := key
		for other, known := range s.seen {
			if known.at.Before(s.seen[oldest].at) {
				oldest = other
			}
		}
		delete(s.seen, oldest)
	}
}

func (s *sessions) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, key)
}

// noteEnd forgets a session that has ended, also for requests that are asking the store for it.
func (s *sessions) noteEnd(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends++
	delete(s.seen, key)
}

func (s *sessions) noteFailure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.now()
}

// end ends the session of a cookie, on all nodes. Afterwards its token cannot be read from the
// store, even with the cookie.
func (s *sessions) end(ctx context.Context, cookie string) error {
	secret, ok := readSecret(cookie)
	if !ok {
		return nil
	}
	store, err := s.store()
	if err != nil {
		return err
	}
	err = store.Delete(ctx, kind, secret.key(), 1)
	s.noteEnd(secret.key()) // even if that failed: this browser has signed out
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return unavailable("this browser has forgotten the session, but the store does not answer: until it ends by time, whoever has its cookie could use it", err)
	}
	return nil
}

// tidyPause is the pause between two looks for sessions that have ended, and tidySlack how long a
// node waits for those that do not know the common time yet.
const (
	tidyPause = 10 * time.Minute
	tidySlack = time.Hour
	tidyMost  = 1000
)

// tidy removes sessions that have ended from the store, until ctx ends.
func (s *sessions) tidy(ctx context.Context) {
	ticker := time.NewTicker(tidyPause)
	defer ticker.Stop()
	for {
		if store, err := s.store(); err == nil {
			if _, err := store.Purge(ctx, kind, s.clock().Add(-tidySlack).UnixMilli(), tidyMost); err != nil && ctx.Err() == nil {
				s.log.Debug("sessions that have ended cannot be removed from the store; it is tried again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// unavailable is the error of a store that does not answer.
func unavailable(detail string, err error) error {
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: detail, RetryAfter: time.Second, Err: err}
}
