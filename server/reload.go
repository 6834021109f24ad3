package server

import (
	"context"
	"slices"

	"github.com/seqd/seqd/server/config"
)

// WithReload lets the service read its configuration again, by load, whenever something comes from
// asked. It applies log.level, and reads the certificate again; what else has changed is logged, and needs a
// restart.
func WithReload[T any](asked <-chan T, load func() (*config.Config, error)) Option {
	return func(o *options) {
		o.reload = func(ctx context.Context, again func(*config.Config, error)) {
			for {
				select {
				case <-asked:
					again(load())
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// levelKey is the key that a reload applies.
const levelKey = "log.level"

// reloaded applies what can be applied of a configuration that was read again. After an error nothing
// has changed.
func (s *Server) reloaded(cfg *config.Config, err error) {
	log := s.base.log
	if err != nil {
		s.base.telemetry.reloadFailures.Add(1)
		log.Error("the configuration cannot be read again, and stays as it was", "error", err)
		return
	}
	restart := s.base.cfg.Changed(cfg)
	if lines := s.base.telemetry.lines; lines != nil { // else the program made the log
		restart = slices.DeleteFunc(restart, func(key string) bool { return key == levelKey })
		lines.SetLevel(cfg.Log.Level)
	}
	if s.front.cert != nil {
		s.front.cert.Look()
	}
	if len(restart) > 0 {
		log.Warn("the configuration was read again; the changes of these keys need a restart", "keys", restart)
		return
	}
	log.Info("the configuration was read again")
}
