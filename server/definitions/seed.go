package definitions

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/feed"
)

const (
	// mostSeeded is how many definitions of the configuration are announced and written at once: so
	// few that other changes stay among the recent announcements.
	mostSeeded = feed.MostRecent / 4
	// parallelWrites bounds how many definitions are written at once; the store merges concurrent
	// writes.
	parallelWrites = 64
	// parallelReads bounds how many definitions are read at once.
	parallelReads = 64
	// retryPause is the pause between two attempts at what needs the store.
	retryPause = time.Second
)

// seeder puts the definitions of the configuration into the store, if the store has no definition
// of that name.
type seeder struct {
	cfg     *config.Config
	records records
	feed    Feed
	log     *slog.Logger
}

// load returns the definitions that the store has of the biz types of the configuration, after
// seeding those that are missing. Those that cannot be written now are left to rest: they must not
// keep the others from issuing.
func (s *seeder) load(ctx context.Context) (map[string]persist.Document, error) {
	names := make([]string, len(s.cfg.BizTypes))
	for i, b := range s.cfg.BizTypes {
		names[i] = b.Name
	}
	all, err := s.records.these(ctx, names)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, b := range s.cfg.BizTypes {
		text, ok := s.cfg.Definition(b.Name)
		doc, there := all[b.Name]
		switch {
		case !ok: // it is not from a file, and stays as it is
		case there:
			s.compare(b.Name, text, doc)
		default:
			missing = append(missing, b.Name)
		}
	}
	made, err := s.seedAll(ctx, missing)
	if err != nil && !errors.Is(err, persist.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		s.log.Warn("definitions of the configuration cannot be written to the store yet", "error", err)
	}
	maps.Copy(all, made)
	return all, nil
}

// seedAll seeds definitions. It returns those that are in the store now, and why others are not.
// They are written in parts, and a part is announced only when the previous one is written: so a
// node that has missed announcements misses no definition. Other nodes find them at their next
// poll.
func (s *seeder) seedAll(ctx context.Context, names []string) (map[string]persist.Document, error) {
	all := make(map[string]persist.Document)
	for part := range slices.Chunk(names, mostSeeded) {
		made, err := s.seedPart(ctx, part)
		if maps.Copy(all, made); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (s *seeder) seedPart(ctx context.Context, names []string) (map[string]persist.Document, error) {
	if err := s.feed.AnnounceAll(ctx, kind, names); err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex // guards made and failed
		made   = make(map[string]persist.Document)
		failed error
		writes sync.WaitGroup
	)
	running := make(chan struct{}, parallelWrites)
	for _, name := range names {
		running <- struct{}{}
		writes.Go(func() {
			defer func() { <-running }()
			doc, err := s.first(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made[name] = doc
			} else if failed == nil || errors.Is(failed, persist.ErrUnavailable) {
				failed = err // an error that does not pass replaces one that does
			}
		})
	}
	writes.Wait()
	return made, failed
}

// first writes the definition of the configuration, which is announced, or returns that of another
// node that was first.
func (s *seeder) first(ctx context.Context, name string) (persist.Document, error) {
	text, _ := s.cfg.Definition(name)
	doc := s.records.document(name, 1, stored{Definition: text, Enabled: true, Source: fromConfig})
	err := s.records.documents.Create(ctx, doc)
	if errors.Is(err, persist.ErrExists) {
		return s.records.documents.Read(ctx, kind, name)
	}
	return doc, err
}

// compare warns if the store has another definition than the configuration.
func (s *seeder) compare(name string, text []byte, doc persist.Document) {
	said, err := decode(doc)
	switch {
	case err != nil: // building it reports the error
	case said.Deleted:
		s.log.Warn("the biz type of the configuration was deleted by the API and stays so",
			"bizType", name, "version", doc.Revision)
	case !equalJSON(said.Definition, text):
		s.log.Warn("the store has another definition of the biz type than the configuration, and that counts; "+
			"change it by the API, or set bizTypesFrom to config", "bizType", name, "version", doc.Revision)
	}
}

// rest seeds the definitions that could not be written at the start and passes them to apply, until
// all are there or ctx ends. missing returns which are not, as far as this process knows.
func (s *seeder) rest(ctx context.Context, missing func() []string, apply func(context.Context, persist.Document)) {
	// its only error is the end of ctx
	_ = retry.Do(ctx, retry.Policy{First: retryPause}, func(ctx context.Context) error {
		names := missing()
		made, err := s.seedAll(ctx, names)
		for _, doc := range made {
			apply(ctx, doc)
		}
		if err == nil && len(names) != len(made) {
			err = errIncomplete
		}
		return err
	})
}

var errIncomplete = errors.New("not every definition is in the store")
