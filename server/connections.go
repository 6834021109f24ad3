package server

import (
	"log/slog"

	"github.com/seqd/seqd/server/openfiles"
)

// spareFiles are the open files that are not connections of callers: store, Redis, MongoDB,
// history, log.
const spareFiles = 256

// maxConnections returns server.maxConnections, or fewer if the system allows so few open files
// that callers could take them all: then the store could not open its files.
func maxConnections(configured int, log *slog.Logger) int {
	limit, known := openfiles.Limit()
	bound := boundConnections(configured, limit, known)
	if bound != configured {
		log.Warn("server.maxConnections is more than the limit of open files allows",
			"maxConnections", configured, "openFiles", limit, "used", bound)
	}
	return bound
}

// boundConnections keeps connections so far below a limit of open files that spareFiles are left,
// or half of the limit if it is very low. 0 is no bound, and stays.
func boundConnections(configured int, limit uint64, known bool) int {
	if configured == 0 || !known || limit >= uint64(configured)+spareFiles {
		return configured
	}
	return min(configured, max(1, int(limit-min(spareFiles, limit/2))))
}
