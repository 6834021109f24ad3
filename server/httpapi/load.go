package httpapi

// Load is the current and past load.
type Load struct {
	// InFlight are the requests being answered, except probes and scrapes. Connections are the open
	// connections, 0 if they are not known.
	InFlight, Connections int64
	// Shed are the requests refused because of Limits.MaxInFlight or MaxInFlightBytes. Refused are
	// the connections closed because of ListenerOptions.MaxConnections.
	Shed, Refused int64
	// Issued, Replayed and Failed count requests with an Idempotency-Key by outcome.
	Issued, Replayed, Failed int64
}

// Load returns the load. It does not block and is safe for concurrent use.
func (a *API) Load() Load {
	requests, room, keyed := a.middleware.places.requests, a.issuing.room, a.issuing.keyed
	l := Load{
		InFlight: requests.now.Load(), Shed: requests.refused.all.Load() + room.refused.all.Load(),
		Issued: keyed.issued.Load(), Replayed: keyed.replayed.Load(), Failed: keyed.failed.Load(),
	}
	if known := a.middleware.listener.Load(); known != nil {
		l.Connections, l.Refused = known.open.Load(), known.refused.all.Load()
	}
	return l
}
