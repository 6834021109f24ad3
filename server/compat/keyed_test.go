package compat_test

import (
	"testing"

	"github.com/seqd/seqd"
)

// None of the protocols can name a key, so each refuses keyed biz types in its own way.
func TestKeyed(t *testing.T) {
	n := newNode(t, setup{yaml: `
compat: {leaf: true, tinyid: true, cosid: create}
bizTypes:
  - {name: ticket, keyed: true}
  - {name: shop.ticket, keyed: true}
`})
	n.leafFails("/api/segment/get/ticket", -3, seqd.CodeInvalidKey)
	n.leafFails("/api/segment/get/ticket?key=a", -3, seqd.CodeInvalidKey)
	for _, bizType := range []string{"ticket", "ticket&key=a"} {
		n.tinyidFails("nextId", "bizType="+bizType, 6, seqd.CodeInvalidKey)
		n.tinyidFails("nextSegmentId", "bizType="+bizType, 6, seqd.CodeInvalidKey)
	}
	n.tinyidFails("nextId", "bizType=ticket/a", 6, seqd.CodeInvalidBizType)
	n.get("/tinyid/id/nextIdSimple?bizType=ticket").want(t, 200, textType, "")
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=ticket").want(t, 200, textType, "")
	n.cosIDFails("PATCH", "/segments/shop/ticket?step=10", 400, seqd.CodeInvalidKey)
	n.cosIDFails("PATCH", "/segments/shop/ticket?step=10&key=a", 400, seqd.CodeInvalidKey)
	if a := n.get("/seq/ticket?key=a"); a.body != `{"bizType":"ticket","id":"1"}`+"\n" {
		t.Errorf("the first number of a key is %s", a.body)
	}
}

// A gapless biz type serves those who ask for numbers. It hands out no ranges, because it would not
// know which of their numbers are issued.
func TestGapless(t *testing.T) {
	n := newNode(t, setup{yaml: `
compat: {leaf: true, tinyid: true, cosid: create}
bizTypes:
  - {name: bill, strategy: gapless}
  - {name: shop.bill, strategy: gapless}
`})
	n.get("/api/segment/get/bill").want(t, 200, textType, "1")
	n.get("/tinyid/id/nextId?bizType=bill&batchSize=2").want(t, 200, utf8Type, `{"data":[2,3],"code":200,"message":""}`)
	n.get("/tinyid/id/nextIdSimple?bizType=bill").want(t, 200, textType, "4")
	n.tinyidFails("nextSegmentId", "bizType=bill", 6, seqd.CodeInvalidRequest)
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=bill").want(t, 200, textType, "")
	n.cosIDFails("PATCH", "/segments/shop/bill?step=10", 400, seqd.CodeInvalidRequest)
	n.get("/api/segment/get/bill").want(t, 200, textType, "5")
}
