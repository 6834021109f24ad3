package resp

import (
	"strconv"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
)

// parse is SEQ.PARSE bizType id [KEY k].
func (c *conn) parse(cmd int, args [][]byte) error {
	g, bizType, id := c.server.gate, string(args[1]), string(args[2])
	if _, err := c.allow(access.ScopeIssue, bizType); err != nil {
		if _, other := c.allow(access.ScopeRead, ""); other != nil {
			return err
		}
	}
	issuer, err := g.Issuer()
	if err != nil {
		return err
	}
	o, err := c.options(cmd, args[1:])
	if err != nil {
		return err
	}
	p, err := issuer.ParseOf(c.server.ctx, bizType, id, string(o.key))
	if err != nil {
		return err
	}
	c.appendParsed(bizType, id, &p)
	return nil
}

// timeFormat is that of the HTTP API.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// appendParsed appends what an ID says, with the names that the HTTP API uses.
func (c *conn) appendParsed(bizType, id string, p *seqd.Parsed) {
	type entry struct{ key, value string }
	entries := []entry{{"bizType", bizType}, {"id", id}, {"number", strconv.FormatInt(p.Number, 10)}}
	if p.Key != "" {
		entries = append(entries, entry{"key", p.Key})
	}
	if period := p.Period.String(); period != "" {
		entries = append(entries, entry{"period", period})
	}
	if !p.Time.IsZero() {
		entries = append(entries, entry{"at", p.Time.UTC().Format(timeFormat)})
	}
	n := len(entries) + 1
	if p.MachineID != nil {
		n++
	}
	if p.Sequence != nil {
		n++
	}
	c.appendMap(n)
	for _, e := range entries {
		c.out = appendBulk(appendBulk(c.out, e.key), e.value)
	}
	c.out = appendBulk(c.out, "valid")
	c.appendBool(p.Valid)
	if p.MachineID != nil {
		c.out = appendInt(appendBulk(c.out, "machineId"), *p.MachineID)
	}
	if p.Sequence != nil {
		c.out = appendInt(appendBulk(c.out, "sequence"), *p.Sequence)
	}
}
