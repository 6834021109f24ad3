package server

import (
	"net/http"
	"time"

	"github.com/seqd/seqd/server/httpapi"
)

// WithCertificateLook sets how often the files of the certificate are checked.
func WithCertificateLook(interval time.Duration) Option {
	return func(o *options) { o.certLook = interval }
}

// Handler returns what answers requests, and Routes the routes that it has. The service has
// started.
func (s *Server) Handler() http.Handler   { return s.front.handler() }
func (s *Server) Routes() []httpapi.Route { return s.front.api.Routes() }
