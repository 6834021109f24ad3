package compat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
)

func TestCosIDSegments(t *testing.T) {
	n := newNode(t, setup{yaml: bizTypes + "  - {name: shop.order}\n  - {name: shop.order.2026}\n  - {name: shop.__share__}\n"})
	n.do("POST", "/segments/distributor/shop/order?offset=0&step=10", "").want(t, 200, "", "")
	n.do("POST", "/segments/distributor/shop/order?offset=500&step=10", "").want(t, 200, "", "") // only used for a new one
	n.do("PATCH", "/segments/shop/order?step=10", "").want(t, 200, jsonType, "10")
	n.do("PATCH", "/segments/shop/order?step=1", "").want(t, 200, jsonType, "11")
	n.do("PATCH", "/segments/shop/order?step=10000", "").want(t, 200, jsonType, "10011")
	n.do("PATCH", "/segments/shop/order?step=2", "", "Content-Type", "application/x-www-form-urlencoded").want(t, 200, jsonType, "10013")
	n.do("PATCH", "/segments/shop/__share__?step=5", "").want(t, 200, jsonType, "5")
	// the @ of a period is a dot, escaped or not
	n.do("PATCH", "/segments/shop/order@2026?step=5", "").want(t, 200, jsonType, "5")
	n.do("PATCH", "/segments/shop/order%402026?step=5", "").want(t, 200, jsonType, "10")
	n.do("PATCH", "/segments/shop/order.2026?step=5", "").want(t, 200, jsonType, "15")
}

// cosIDFails checks the answer to a request that fails; code "" accepts any code and status.
func (n *node) cosIDFails(method, target string, status int, code seqd.Code, header ...string) {
	n.t.Helper()
	a := n.do(method, target, "", header...)
	if code != "" {
		a.failed(n.t, code)
	} else {
		status = a.status
	}
	var got struct {
		Code, Msg string
		Errors    []any
	}
	err := json.Unmarshal([]byte(a.body), &got)
	if err != nil || a.status < 400 || a.status != status || a.contentType != jsonType || got.Code != strconv.Itoa(status) || got.Msg == "" || got.Errors == nil || len(got.Errors) > 0 {
		n.t.Errorf("%s %s: %d %s %s; want %d", method, target, a.status, a.contentType, a.body, status)
	}
}

func TestCosIDFailures(t *testing.T) {
	n := newNode(t, setup{yaml: "compat: {cosid: use}\n" + strings.ReplaceAll(bizTypes, "- {name: ", "- {name: a.")})
	for _, query := range []string{"", "step=", "step=0", "step=-1", "step=x", "step=1.5", "step=9223372036854775808", "step=1&step=1", "step=1&%zz"} {
		n.cosIDFails("PATCH", "/segments/a/order?"+query, 400, seqd.CodeInvalidRequest)
		n.cosIDFails("POST", "/segments/distributor/a/order?offset=0&"+query, 400, seqd.CodeInvalidRequest)
	}
	for _, step := range []string{"10001", "1000000", "100000000", "9007199254740991"} { // as GET /seq?count=
		n.cosIDFails("PATCH", "/segments/a/order?step="+step, 400, seqd.CodeInvalidCount)
		n.cosIDFails("POST", "/segments/distributor/a/order?offset=0&step="+step, 400, seqd.CodeInvalidCount)
	}
	for _, query := range []string{"step=1", "step=1&offset=", "step=1&offset=-1", "step=1&offset=9007199254740991", "step=1&offset=x"} {
		n.cosIDFails("POST", "/segments/distributor/a/order?"+query, 400, seqd.CodeInvalidRequest)
	}
	for _, name := range []string{"9/order", "a/b:c", "a/b%2Fc", "a/b%20c", "a/%C3%A9", "a/" + strings.Repeat("x", 63)} {
		n.cosIDFails("PATCH", "/segments/"+name+"?step=1", 400, seqd.CodeInvalidBizType)
		n.cosIDFails("POST", "/segments/distributor/"+name+"?offset=0&step=1", 400, seqd.CodeInvalidBizType)
	}
	n.cosIDFails("PATCH", "/segments/a/nobody?step=1", 404, seqd.CodeUnknownBizType)
	n.cosIDFails("POST", "/segments/distributor/a/nobody?offset=0&step=1", 404, seqd.CodeUnknownBizType)
	for _, name := range []string{"user", "limited", "recorded", "yearly", "invoice"} {
		n.cosIDFails("PATCH", "/segments/a/"+name+"?step=1", 400, seqd.CodeInvalidRequest)
	}
	n.cosIDFails("POST", "/segments/distributor/a/invoice?offset=0&step=1", 400, seqd.CodeInvalidRequest)
	n.do("PATCH", "/segments/a/counted?step=7", "").want(t, 200, jsonType, "7")
	n.cosIDFails("PATCH", "/segments/a/next?step=3", 409, seqd.CodeExhausted) // two are left
	n.do("PATCH", "/segments/a/next?step=2", "").want(t, 200, jsonType, "9007199254740991")
}

func TestCosIDCreates(t *testing.T) {
	n := newNode(t, setup{})
	n.cosIDFails("PATCH", "/segments/shop/cart?step=1", 404, seqd.CodeUnknownBizType) // only POST creates
	n.do("POST", "/segments/distributor/shop/cart?offset=1000&step=100", "").want(t, 200, "", "")
	n.do("POST", "/segments/distributor/shop/cart?offset=1000&step=100", "").want(t, 200, "", "")
	n.do("PATCH", "/segments/shop/cart?step=100", "").want(t, 200, jsonType, "1100")
	if a := n.get("/seq/shop.cart"); a.status != 200 {
		t.Errorf("another caller: %d %s", a.status, a.body)
	}
	if a := n.get("/biz-types/shop.cart"); a.status != 200 || !strings.Contains(a.body, `"version":1`) || !strings.Contains(a.body, `"start":1001`) {
		t.Errorf("the definition: %d %s", a.status, a.body)
	}
	lines := slices.DeleteFunc(strings.Split(n.log.String(), "\n"), func(line string) bool { return !strings.Contains(line, `"msg":"audit"`) })
	if len(lines) != 2 || !strings.Contains(lines[0], `"target":"shop.cart"`) || !strings.Contains(lines[0], `"version":1`) || !strings.Contains(lines[1], `"version":0`) {
		t.Errorf("the audit log: %q", lines)
	}
	n.cosIDFails("POST", "/segments/distributor/shop/a:b?offset=0&step=1", 400, seqd.CodeInvalidBizType)
	n.cosIDFails("POST", "/segments/distributor/shop/full?offset=9007199254740991&step=1", 400, seqd.CodeInvalidRequest)
	n.do("POST", "/segments/distributor/shop/last?offset=9007199254740990&step=1", "").want(t, 200, "", "")
	n.do("PATCH", "/segments/shop/last?step=1", "").want(t, 200, jsonType, "9007199254740991")
	starting := newNode(t, setup{starting: true})
	starting.cosIDFails("POST", "/segments/distributor/shop/cart?offset=0&step=1", 503, seqd.CodeStarting)
}

// TestCosIDCreatesAgain deletes a biz type that a client created. It continues above its numbers
// when a client creates it again.
func TestCosIDCreatesAgain(t *testing.T) {
	n := newNode(t, setup{})
	const create = "/segments/distributor/shop/cart?offset=0&step=10"
	n.do("POST", create, "").want(t, 200, "", "")
	n.do("PATCH", "/segments/shop/cart?step=10", "").want(t, 200, jsonType, "10")
	if a := n.do("DELETE", "/biz-types/shop.cart", ""); a.status != 204 {
		t.Fatalf("delete: %d %s", a.status, a.body)
	}
	n.cosIDFails("PATCH", "/segments/shop/cart?step=10", 404, seqd.CodeUnknownBizType)
	n.do("POST", create, "").want(t, 200, "", "")
	a := n.do("PATCH", "/segments/shop/cart?step=10", "")
	if last, err := strconv.Atoi(a.body); err != nil || last < 20 {
		t.Errorf("after it was created again: %d %s", a.status, a.body)
	}
	if a := n.do("POST", "/biz-types/shop.cart/disable", ""); a.status != 200 {
		t.Fatalf("disable: %d %s", a.status, a.body)
	}
	n.cosIDFails("POST", create, 409, seqd.CodeDisabled)
	n.cosIDFails("PATCH", "/segments/shop/cart?step=10", 409, seqd.CodeDisabled)
}

// TestCosIDCreatesSome lets clients of two nodes create biz types until there are enough. Those
// that exist can be used, also at the node that has not seen them, and deleting one makes room.
func TestCosIDCreatesSome(t *testing.T) {
	store, yaml := newSharedStore(), "compat: {cosid: create, maxBizTypes: 5}\nbizTypes: [{name: other}, {name: another}]\n"
	a, b := newNode(t, setup{store: store, yaml: yaml}), newNode(t, setup{store: store, yaml: yaml})
	var created atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			answer, err := a.try("POST", fmt.Sprintf("/segments/distributor/shop/cart%d?offset=0&step=1", i), "")
			switch {
			case err == nil && answer.status == 200:
				created.Add(1)
			case err != nil || answer.header.Get("Seqd-Error") != string(seqd.CodeConflict) || !strings.Contains(answer.body, "compat.maxBizTypes"):
				t.Errorf("%v %d %s", err, answer.status, answer.body)
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n != 3 {
		t.Fatalf("clients created %d biz types, want 3", n)
	}
	b.cosIDFails("POST", "/segments/distributor/shop/late?offset=0&step=1", 409, seqd.CodeConflict)
	var names struct{ BizTypes []struct{ Name string } }
	b.must(json.Unmarshal([]byte(a.get("/biz-types").body), &names))
	for _, c := range names.BizTypes {
		if name, ours := strings.CutPrefix(c.Name, "shop."); ours {
			b.do("POST", "/segments/distributor/shop/"+name+"?offset=0&step=1", "").want(t, 200, "", "")
			b.do("PATCH", "/segments/shop/"+name+"?step=1", "").want(t, 200, jsonType, "1")
		}
	}
	if answer := a.do("DELETE", "/biz-types/another", ""); answer.status != 204 {
		t.Fatalf("delete: %d %s", answer.status, answer.body)
	}
	await.Eventually(t, "a biz type in the room of another", func() error {
		if answer := b.do("POST", "/segments/distributor/shop/late?offset=0&step=1", ""); answer.status != 200 {
			return errors.New(answer.body)
		}
		return nil
	})
}

// TestCosIDCreatesOnce lets three nodes create the same biz types at once. Each client can use its
// biz type at any node at once, and gets numbers that no other client gets.
func TestCosIDCreatesOnce(t *testing.T) {
	store := newSharedStore()
	var nodes []*node
	for range 3 {
		nodes = append(nodes, newNode(t, setup{store: store, yaml: "compat: {cosid: create}\nbizTypes: [{name: other}]\n"}))
	}
	const names, clients, step = 8, 12, 10
	type taken struct {
		name string
		last int64
	}
	var mu sync.Mutex
	var all []taken
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range names {
				name := fmt.Sprint("cart", (client+i)%names)
				if a, err := nodes[client%3].try("POST", "/segments/distributor/shop/"+name+"?offset=100&step=10", ""); err != nil || a.status != 200 || a.body != "" {
					t.Errorf("create: %v %d %s", err, a.status, a.body)
				}
				a, err := nodes[(client+1)%3].try("PATCH", "/segments/shop/"+name+"?step=10", "")
				last, e := strconv.ParseInt(a.body, 10, 64)
				if err != nil || e != nil || a.status != 200 {
					t.Errorf("take: %v %d %s", err, a.status, a.body)
				}
				mu.Lock()
				all = append(all, taken{name, last})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	seen := make(map[taken]bool)
	for _, s := range all {
		for number := s.last - step + 1; number <= s.last; number++ {
			if one := (taken{s.name, number}); seen[one] || number <= 100 {
				t.Fatalf("%s: %d was issued twice, or is not above the offset", s.name, number)
			} else {
				seen[one] = true
			}
		}
	}
	for i := range names {
		if a := nodes[0].get("/biz-types/shop.cart" + strconv.Itoa(i)); !strings.Contains(a.body, `"version":1,`) {
			t.Errorf("the definition was changed: %s", a.body)
		}
	}
}
