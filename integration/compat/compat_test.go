// Package compat tests the drop-ins for Leaf, Tinyid and CosId: callers that follow their protocols
// take numbers from three real nodes that are killed, beside callers of GET /seq. With the build
// tag java, which scripts/compat sets, the callers of Tinyid and CosId are programs in Java.
package compat

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// bizType is taken by all callers. CosId's namespace is shop, and the name order.
const (
	bizType = "shop.order"
	token   = "seqd_compat0000000000000000000000"
)

// settings let all three clients in.
func settings() []string {
	return []string{
		`SEQD_BIZTYPES=[{"name":"` + bizType + `","step":1000,"maxStep":5000}]`,
		"SEQD_COMPAT_LEAF=true", "SEQD_COMPAT_TINYID=true", "SEQD_COMPAT_COSID=use",
	}
}

// withToken requires tokens, and gives Leaf's and CosId's clients, which send none, the scopes of
// one.
func withToken() []string {
	return []string{
		"SEQD_AUTH_MODE=token", "SEQD_COMPAT_TOKEN=shop",
		fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"shop","sha256":"%x","scopes":["issue:%s"]}]`, sha256.Sum256([]byte(token)), bizType),
	}
}

// system is what three nodes share, and the token that their callers send.
type system struct {
	name  string
	token string
	start func(t *testing.T) []string
}

var systems = []system{
	{"postgres with tokens", token, func(t *testing.T) []string { return slices.Concat(fleet.Postgres(t), withToken()) }},
	{"mongo and redis", "", func(t *testing.T) []string { return fleet.MongoAndRedis(t) }},
}

// Nodes are killed and come back while callers of every protocol take numbers of one biz type. No
// number comes twice, and those of single calls are in order.
func TestNoNumberTwice(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, fleet.Start(t, 3, slices.Concat(s.start(t), settings())...), s.token)
			c.enter("seq", 6, true, c.seq(1))
			c.enter("seq in batches", 2, true, c.seq(100))
			c.enter("leaf", 6, true, c.leaf)
			c.enter("tinyid", 3, false, c.tinyid)
			c.enter("cosid", 3, false, c.cosid(100))
			c.kill(longtest.Or(2, 6))
			c.leave()
			c.check()
		})
	}
}

// kill kills each node some times.
func (c *crowd) kill(times int) {
	c.t.Helper()
	for range times {
		for _, n := range c.nodes {
			c.more(50)
			n.Kill()
			c.more(50)
			n.Start()
		}
	}
	c.more(50)
}
