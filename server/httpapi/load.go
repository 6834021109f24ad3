package httpapi

// Load is the current and past load.
type Load struct {
	// InFlight are the requests being answered, except probes and scrapes. Connections are the open
	// connections of all protocols.
	InFlight, Connections int64
	// Shed are the requests refused because of [gate.Options].MaxInFlight or MaxInFlightBytes.
	// Refused are the connections closed because of [gate.Options].MaxConnections, Displaced those
	// closed to make room for others, and Silent those without an answered request for too long.
	Shed, Refused, Displaced, Silent int64
	// Issued, Replayed and Failed count requests with an Idempotency-Key by outcome.
	Issued, Replayed, Failed int64
}

// Load returns the load. It does not block and is safe for concurrent use.
func (a *API) Load() Load {
	g, keyed := a.gate, a.issuing.keyed
	return Load{
		InFlight: g.Requests.Taken(), Shed: g.Requests.Refused.All() + g.Room.Refused.All(),
		Connections: g.Connections.Open(), Refused: g.Closed.Refused.All(), Displaced: g.Closed.Displaced.All(), Silent: g.Closed.Silent.All(),
		Issued: keyed.issued.Load(), Replayed: keyed.replayed.Load(), Failed: keyed.failed.Load(),
	}
}
