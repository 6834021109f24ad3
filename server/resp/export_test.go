package resp

import "time"

// LingerFor sets how long a connection is read after the last answer. It must be called before Serve.
func (s *Server) LingerFor(d time.Duration) { s.linger = d }
