package server

import (
	"context"
	"io"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/doctor"
)

// Doctor looks at a configuration and at all that it names, writes what it finds and would change,
// and returns whether something is there that keeps seqd from working. It changes nothing, nodes
// may be running, and it takes at most about 11 s, also when nothing answers.
func Doctor(ctx context.Context, cfg *config.Config, w io.Writer) (failed bool) {
	d := &doctor.Doctor{
		Config: cfg, Redis: newRedis, Shape: wholeShape, Host: doctor.ThisHost(openFiles), Now: time.Now,
		Definitions: func(ctx context.Context, store persist.Store) ([]doctor.Definition, error) {
			return storedDefinitions(ctx, cfg, store)
		},
		Ask: func(ctx context.Context) (string, error) { return Healthcheck(ctx, cfg) },
	}
	return doctor.Print(w, d.Examine(ctx))
}

// storedDefinitions returns the biz types that the store has.
func storedDefinitions(ctx context.Context, cfg *config.Config, store persist.Store) (list []doctor.Definition, err error) {
	for doc, err := range persist.EveryDocument(ctx, store.Documents(), definitionKind) {
		if err != nil {
			return nil, err
		}
		list = append(list, storedDefinition(cfg, doc))
	}
	return list, nil
}

func storedDefinition(cfg *config.Config, doc persist.Document) (d doctor.Definition) {
	d.BizType, d.Err = decodeStored(cfg, doc)
	d.BizType.Name = doc.Key
	said, _ := decodeEntry(doc) // Err says why it cannot be read
	text, ok := cfg.Definition(doc.Key)
	d.Deleted, d.Configured = said.Deleted, ok && equalJSON(said.Definition, text)
	d.Differs = ok && !d.Configured
	return d
}
