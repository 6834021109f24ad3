package config

import "github.com/seqd/seqd"

// Compat is what seqd answers to clients of other services: see [COMPAT.md](COMPAT.md).
type Compat struct {
	// Leaf is true if seqd answers as [Leaf's server](COMPAT.md#leaf) does.
	Leaf bool `config:"leaf"`
	// LeafSnowflake is the biz type, of the strategy snowflake, that Leaf's snowflake routes issue
	// from and decode. Empty: they have no numbers.
	LeafSnowflake string `config:"leafSnowflake"`
	// Tinyid is true if seqd answers as [Tinyid's server](COMPAT.md#tinyid) does.
	Tinyid bool `config:"tinyid"`
	// CosID is whether seqd answers as [CosId's proxy server](COMPAT.md#cosid) does. `use`: for biz
	// types that exist. `create`: it also creates those that clients name. Both: it leases [machine
	// IDs](COMPAT.md#machine-ids) of the pools that exist.
	CosID string `config:"cosid" range:"off, use, create"`
	// MaxBizTypes is how many biz types there may be, whoever created them, for clients of CosId to
	// create another. Several nodes at once may create a few more.
	MaxBizTypes int `config:"maxBizTypes" range:"1 to 10,000"`
	// Token is the name of the [token](API.md#access) whose scopes the clients of Leaf and CosId
	// have: they cannot send one. It is required if callers need a token.
	Token string `config:"token"`
}

// The values of CosID.
const (
	CosIDOff    = "off"
	CosIDUse    = "use"
	CosIDCreate = "create"
)

// snowflake is the strategy whose numbers contain a time and a machine ID.
const snowflake = "snowflake"

// validateCompat checks what seqd answers to clients of other services. A token or a biz type that
// the configuration does not have may be in the store.
func (c *Config) validateCompat(p *problems) {
	s := &c.Compat
	p.oneOf("compat.cosid", s.CosID, CosIDOff, CosIDUse, CosIDCreate)
	p.check(s.CosID != CosIDCreate || c.BizTypesFrom != FromConfig, "compat.cosid",
		"create needs bizTypesFrom: store, because it changes biz types; use answers for those that exist")
	p.check(s.MaxBizTypes >= 1 && s.MaxBizTypes <= 10_000, "compat.maxBizTypes", "%d is outside 1 to 10000", s.MaxBizTypes)
	if s.Token != "" && seqd.CheckName(s.Token) != nil {
		p.check(false, "compat.token", "its value, which is not shown, is not the name of a token; it is a name, not a secret")
	}
	p.check(!c.Auth.Enforced() || s.Token != "" || !s.Leaf && s.CosID == CosIDOff, "compat.token",
		"it is empty, and callers need a token, which the clients of Leaf and CosId cannot send: name one of auth.tokens, or of the store, whose scopes they get")
	c.validateLeafSnowflake(p)
}

func (c *Config) validateLeafSnowflake(p *problems) {
	const key = "compat.leafSnowflake"
	name := c.Compat.LeafSnowflake
	if name == "" {
		return
	}
	p.check(c.Compat.Leaf, key, "it needs compat.leaf: true")
	if err := seqd.CheckName(name); err != nil {
		p.check(false, key, "%s", seqd.AsError(err).Detail)
	}
	for _, b := range c.BizTypes {
		if b.Name == name {
			p.check(b.Strategy == snowflake, key, "the biz type %s has the strategy %s, not %s", name, b.Strategy, snowflake)
			return
		}
	}
	p.check(c.BizTypesFrom != FromConfig, key, "there is no biz type %s in bizTypes", name)
}
