package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
)

// answered is a node that notes its last request and gives one answer. integration/client has the
// real ones.
type answered struct {
	status int
	media  string
	body   string
	got    string
}

func (a *answered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	parts := []string{r.Method, r.URL.RequestURI()}
	for _, name := range []string{"Content-Type", "If-Match", "If-None-Match"} {
		if value := r.Header.Get(name); value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	a.got = strings.Join(append(parts, string(body)), " ")
	if a.media == "" {
		a.media = "application/json"
	}
	w.Header().Set("Content-Type", a.media)
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func dial(t *testing.T, node http.Handler) *admin.Admin {
	t.Helper()
	s := httptest.NewServer(node)
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{Addrs: []string{s.URL}, Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return admin.New(c)
}

func TestRequests(t *testing.T) {
	ctx, yes := context.Background(), true
	bizType := `{"name":"order","version":7,"enabled":true,"source":"api","updatedAt":"2026-11-21T12:20:11.048Z","definition":{"start":100},"warnings":["w"],"settingWarnings":[{"key":"start","text":"w"}],"example":"INV-1"}`
	line := `{"at":"2026-11-23T00:00:00Z","nodeId":"n","caller":"ops","addr":"192.0.2.1","requestId":"r","method":"PUT","path":"/biz-types/order","target":"order","status":200,"version":7,"leftOut":3}`
	settings := `{"common":[],"strategies":[{"name":"segment","help":"h","settings":[{"key":"step","type":"integer","default":1000,"range":"1 to 5","min":1,"max":5,"help":"","secret":false,"required":false}]}],"plugins":[],"rejected":[]}`
	token := `{"name":"shop","scopes":["read"],"enabled":true,"source":"api","version":1,"secrets":[{"id":"a1"}],"secret":"s"}`
	made := `{"caller":"child","id":"a2","createdAt":"2026-11-23T00:00:00Z","createdBy":"~","deleted":true}`
	secret := `{"id":"a2","createdAt":"2026-11-23T00:00:00Z","secret":"s"}`
	account := `{"bizType":"invoice","key":"t-1","period":"2026","first":"1","last":"9","issued":5,"gaps":[
		{"from":"7","to":"8","state":"void","reason":"r","caller":"b","at":"2026-11-23T00:00:00Z"},{"from":"9","to":"9","state":"reserved","reservation":"r1","expiresAt":"2026-11-23T00:00:00Z"}],"next":"9"}`
	pool := `{"pool":"shop","bitsMachine":10,"bitsSequence":12,"epoch":"2025-01-01T00:00:00Z","ttl":"30s","version":1,"updatedAt":"2026-11-23T00:00:00Z","held":1,"free":1023,"standingBy":2,"holders":[{"workerId":7,"instance":"shop.1","until":"2026-11-23T00:00:30Z"}]}`
	subscription := `{"name":"shop","url":"http://a","bizTypes":["invoice"],"types":["number.void"],"enabled":true,"reason":"r","version":1,"updatedAt":"2026-11-23T00:00:00Z","secret":"whsec_x","state":{"positions":{"invoice":7},"pending":1,"dead":2,"missed":3,"error":"e","failedAt":"2026-11-23T00:00:00Z","node":"n"}}`
	delivery := `{"key":"invoice/7","id":"msg_1","state":"dead","attempts":10,"lastAt":"2026-11-23T00:00:00Z","error":"e","expiresAt":"2026-11-23T00:00:00Z","event":{"id":"a/1"}}`
	year := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name   string
		status int
		body   string
		ask    func(*admin.Admin) (any, error)
		want   string // the request
		got    string // what is returned, as JSON
	}{
		{"list", 200, `{"bizTypes":[` + bizType + `],"next":"order"}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.BizTypes(ctx, admin.Page{After: "a&b", Limit: 1})
			return []any{len(list), next}, err
		}, "GET /biz-types?after=a%26b&limit=1 ", `[1,"order"]`},
		{"list some", 200, `{"bizTypes":[],"next":"order"}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.BizTypes(ctx, admin.Page{Match: "or*r"})
			return []any{len(list), next}, err
		}, "GET /biz-types?match=or%2Ar ", `[0,"order"]`},
		{"audit", 200, `{"lines":[` + line + `],"next":"x"}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.Audit(ctx, admin.AuditOf{}, admin.Page{After: "y", Limit: 2})
			return []any{list, next}, err
		}, "GET /audit?after=y&limit=2 ", `[[` + line + `],"x"]`},
		{"settings", 200, settings, func(a *admin.Admin) (any, error) { return a.Settings(ctx) }, "GET /settings ", settings},
		{"get", 200, bizType, func(a *admin.Admin) (any, error) { return a.BizType(ctx, "a/b") }, "GET /biz-types/a%2Fb ", bizType},
		{"create", 201, bizType, func(a *admin.Admin) (any, error) {
			_, created, err := a.PutBizType(ctx, "order", []byte("{}"), admin.Change{IfNoneMatch: true, DryRun: true, Force: true})
			return created, err
		}, "PUT /biz-types/order?dryRun=true&force=true Content-Type=application/json If-None-Match=* {}", "true"},
		{"replace", 200, bizType, func(a *admin.Admin) (any, error) {
			_, created, err := a.PutBizType(ctx, "order", []byte("{}"), admin.Change{IfMatch: 6})
			return created, err
		}, `PUT /biz-types/order Content-Type=application/json If-Match="6" {}`, "false"},
		{"patch", 200, bizType, func(a *admin.Admin) (any, error) {
			return a.PatchBizType(ctx, "order", []byte(`{"step":null}`), admin.Change{})
		}, `PATCH /biz-types/order Content-Type=application/json {"step":null}`, bizType},
		{"delete", 204, "", func(a *admin.Admin) (any, error) {
			return nil, a.DeleteBizType(ctx, "order", admin.Change{IfMatch: 7})
		}, `DELETE /biz-types/order If-Match="7" `, "null"},
		{"disable", 200, bizType, func(a *admin.Admin) (any, error) {
			return a.EnableBizType(ctx, "order", false, admin.Change{})
		}, "POST /biz-types/order/disable ", bizType},
		{"enable", 200, bizType, func(a *admin.Admin) (any, error) { return a.EnableBizType(ctx, "order", true, admin.Change{}) }, "POST /biz-types/order/enable ", bizType},
		{"list tokens", 200, `{"tokens":[]}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.Tokens(ctx, admin.Page{})
			return []any{len(list), next}, err
		}, "GET /tokens ", `[0,""]`},
		{"get token", 200, token, func(a *admin.Admin) (any, error) { return a.Token(ctx, "shop") }, "GET /tokens/shop ", token},
		{"create token", 201, token, func(a *admin.Admin) (any, error) {
			return a.CreateToken(ctx, admin.NewToken{Name: "shop", Scopes: []string{"read"}, Expires: year})
		}, `POST /tokens Content-Type=application/json {"enabled":true,"expires":"2027-01-01T00:00:00Z","name":"shop","scopes":["read"]}`, token},
		{"patch token", 200, token, func(a *admin.Admin) (any, error) {
			return a.PatchToken(ctx, "shop", admin.TokenPatch{Enabled: &yes, Expires: new(time.Time)}, 3)
		}, `PATCH /tokens/shop Content-Type=application/json If-Match="3" {"enabled":true,"expires":null}`, token},
		{"create secret", 201, secret, func(a *admin.Admin) (any, error) { return a.CreateSecret(ctx, "shop", year) },
			`POST /tokens/shop/secrets Content-Type=application/json {"expires":"2027-01-01T00:00:00Z"}`, secret},
		{"delete secret", 204, "", func(a *admin.Admin) (any, error) { return nil, a.DeleteSecret(ctx, "shop", "a1") }, "DELETE /tokens/shop/secrets/a1 ", "null"},
		{"made", 200, `{"secrets":[` + made + `]}`, func(a *admin.Admin) (any, error) { return a.Made(ctx, admin.Nobody) }, "GET /tokens/~/made ", "[" + made + "]"},
		{"revoke made", 200, `{"secrets":[` + made + `]}`, func(a *admin.Admin) (any, error) { return a.RevokeMade(ctx, "boss") }, "DELETE /tokens/boss/made ", "[" + made + "]"},
		{"delete token", 204, "", func(a *admin.Admin) (any, error) { return nil, a.DeleteToken(ctx, "shop", 0) }, "DELETE /tokens/shop ", "null"},
		{"list pools", 200, `{"pools":[` + pool + `],"next":"shop"}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.WorkerPools(ctx, admin.Page{After: "a", Limit: 1})
			return []any{list, next}, err
		}, "GET /worker-pools?after=a&limit=1 ", `[[` + pool + `],"shop"]`},
		{"get pool", 200, pool, func(a *admin.Admin) (any, error) { return a.WorkerPool(ctx, "shop") }, "GET /worker-pools/shop ", pool},
		{"put pool", 201, pool, func(a *admin.Admin) (any, error) {
			_, created, err := a.PutWorkerPool(ctx, "shop", []byte("{}"), admin.Change{IfNoneMatch: true})
			return created, err
		}, "PUT /worker-pools/shop Content-Type=application/json If-None-Match=* {}", "true"},
		{"patch pool", 200, pool, func(a *admin.Admin) (any, error) {
			return a.PatchWorkerPool(ctx, "shop", []byte(`{"ttl":"1m"}`), admin.Change{IfMatch: 1})
		}, `PATCH /worker-pools/shop Content-Type=application/json If-Match="1" {"ttl":"1m"}`, pool},
		{"delete pool", 204, "", func(a *admin.Admin) (any, error) {
			return nil, a.DeleteWorkerPool(ctx, "shop", admin.Change{IfMatch: 1})
		}, `DELETE /worker-pools/shop If-Match="1" `, "null"},
		{"list subscriptions", 200, `{"subscriptions":[` + subscription + `],"next":"shop"}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.Subscriptions(ctx, admin.Page{After: "a", Limit: 1})
			return []any{list, next}, err
		}, "GET /subscriptions?after=a&limit=1 ", `[[` + subscription + `],"shop"]`},
		{"get subscription", 200, subscription, func(a *admin.Admin) (any, error) { return a.Subscription(ctx, "shop") }, "GET /subscriptions/shop ", subscription},
		{"put subscription", 201, subscription, func(a *admin.Admin) (any, error) {
			_, created, err := a.PutSubscription(ctx, "shop", admin.SubscriptionRequest{URL: "http://a", BizTypes: []string{"invoice"}}, admin.Change{IfNoneMatch: true})
			return created, err
		}, `PUT /subscriptions/shop Content-Type=application/json If-None-Match=* {"url":"http://a","bizTypes":["invoice"],"enabled":true}`, "true"},
		{"delete subscription", 204, "", func(a *admin.Admin) (any, error) {
			return nil, a.DeleteSubscription(ctx, "shop", admin.Change{IfMatch: 1})
		}, `DELETE /subscriptions/shop If-Match="1" `, "null"},
		{"deliveries", 200, `{"deliveries":[` + delivery + `],"next":"k"}`, func(a *admin.Admin) (any, error) {
			list, next, err := a.Deliveries(ctx, "shop", "dead", admin.Page{Limit: 1})
			return []any{list, next}, err
		}, "GET /subscriptions/shop/deliveries?limit=1&state=dead ", `[[` + delivery + `],"k"]`},
		{"replay", 202, subscription, func(a *admin.Admin) (any, error) { return a.Replay(ctx, "shop", admin.Replay{Dead: true}) },
			`POST /subscriptions/shop/replay Content-Type=application/json {"dead":true}`, subscription},
		{"void", 204, "", func(a *admin.Admin) (any, error) {
			return nil, a.Void(ctx, "invoice", admin.Void{ID: "INV-7", Reason: "typed wrong", Counter: admin.Counter{Key: "t-1", Period: "2026"}})
		}, `POST /biz-types/invoice/voids?key=t-1&period=2026 Content-Type=application/json {"id":"INV-7","reason":"typed wrong"}`, "null"},
		{"account", 200, account, func(a *admin.Admin) (any, error) {
			return a.Account(ctx, "invoice", admin.Counter{Key: "t-1", Period: "2026"}, admin.Page{After: "40", Limit: 2})
		}, "GET /biz-types/invoice/gaps?after=40&key=t-1&limit=2&period=2026 ", account},
		{"keys", 200, `{"bizType":"invoice","keys":["a","b"],"next":"b"}`, func(a *admin.Admin) (any, error) {
			keys, next, err := a.Keys(ctx, "invoice", admin.Page{After: "A", Limit: 2})
			return []any{keys, next}, err
		}, "GET /biz-types/invoice/keys?after=A&limit=2 ", `[["a","b"],"b"]`},
		{"nodes", 200, `{"nodes":[{"id":"1","self":true,"backends":{"store":{"state":"ok"}}}],"complete":true}`, func(a *admin.Admin) (any, error) {
			list, complete, err := a.Nodes(ctx)
			return []any{list[0].Backends["store"].State, complete}, err
		}, "GET /nodes ", `["ok",true]`},
		{
			"overview", 200, `{"at":"2026-11-23T08:30:04.118Z","intervalMs":5000,"complete":true,"numbers":[null,2.5],"latency":{"p50Ms":[0.001]},"nodes":[{"id":"1","state":"ready","clockOffsetMs":-1500}]}`,
			func(a *admin.Admin) (any, error) {
				o, err := a.Overview(ctx)
				return []any{o.At, o.Numbers, o.Latency.P50MS, o.Nodes[0].ID, o.Nodes[0].State, o.Nodes[0].ClockOffsetMS, o.Complete}, err
			}, "GET /overview ", `["2026-11-23T08:30:04.118Z",[null,2.5],[0.001],"1","ready",-1500,true]`,
		},
		{"ready", 200, `{"status":"ready","details":{"user":{"machineId":3}}}`, func(a *admin.Admin) (any, error) { return a.Ready(ctx) }, "GET /readyz ", `{"status":"ready","details":{"user":{"machineId":3}}}`},
		{
			"degraded", 200, `{"status":"degraded","unready":1,"degraded":119,"bizTypes":[{"bizType":"order","code":"redis_unavailable","detail":"d","unready":true}],"store":{"code":"store_failed_over","detail":"e"}}`,
			func(a *admin.Admin) (any, error) { return a.Ready(ctx, "order", "bill") }, "GET /readyz?bizType=order%2Cbill ",
			`{"status":"degraded","bizTypes":[{"bizType":"order","code":"redis_unavailable","detail":"d","unready":true}],"total":120,"store":{"code":"store_failed_over","detail":"e"}}`,
		},
		{
			"unready", 503, `{"type":"about:blank","status":503,"code":"store_unavailable","detail":"2 biz types cannot issue","unready":2,"bizTypes":[{"bizType":"order","code":"store_unavailable","detail":"d"}]}`,
			func(a *admin.Admin) (any, error) { return a.Ready(ctx) }, "GET /readyz ",
			`{"status":"unready","code":"store_unavailable","detail":"2 biz types cannot issue","bizTypes":[{"bizType":"order","code":"store_unavailable","detail":"d"}],"total":2}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := &answered{status: test.status, body: test.body}
			if test.status >= 400 {
				node.media = "application/problem+json"
			}
			got, err := test.ask(dial(t, node))
			if err != nil {
				t.Fatal(err)
			}
			if node.got != test.want {
				t.Errorf("sent %s\nwant %s", node.got, test.want)
			}
			if text, err := json.Marshal(got); err != nil || !sameJSON(t, string(text), test.got) {
				t.Errorf("got %s, %v\nwant %s", text, err, test.got)
			}
		})
	}
}

// sameJSON compares without the order of keys.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, errP := json.Marshal(x)
	q, errQ := json.Marshal(y)
	return errP == nil && errQ == nil && string(p) == string(q)
}

func TestWrongAnswers(t *testing.T) {
	ctx := context.Background()
	for _, node := range []answered{
		{200, "text/html", "<html>", ""}, {200, "", "{", ""}, {200, "", "", ""}, {200, "", "{}", ""}, {200, "", "null", ""}, {200, "", `{"bizTypes":null,"tokens":null,"nodes":null,"pools":null,"subscriptions":null,"deliveries":null}`, ""}, {302, "", "{}", ""},
	} {
		a := dial(t, &node)
		_, _, list := a.BizTypes(ctx, admin.Page{})
		_, _, tokens := a.Tokens(ctx, admin.Page{})
		_, _, lines := a.Audit(ctx, admin.AuditOf{}, admin.Page{})
		_, settings := a.Settings(ctx)
		_, _, nodes := a.Nodes(ctx)
		_, _, pools := a.WorkerPools(ctx, admin.Page{})
		_, _, subscriptions := a.Subscriptions(ctx, admin.Page{})
		_, _, deliveries := a.Deliveries(ctx, "shop", "", admin.Page{})
		_, ready := a.Ready(ctx)
		for what, err := range map[string]error{"biz types": list, "tokens": tokens, "audit": lines, "settings": settings, "nodes": nodes, "pools": pools, "subscriptions": subscriptions, "deliveries": deliveries, "ready": ready} {
			if !errors.Is(err, client.ErrBadAnswer) {
				t.Errorf("%+v: %s: got %v", node, what, err)
			}
		}
	}
	a := dial(t, &answered{503, "text/html", "<html>", ""})
	if _, err := a.Ready(ctx); err == nil {
		t.Error("a proxy's 503 is the state of a node")
	}
}

// A name never becomes another route.
func TestNames(t *testing.T) {
	a := dial(t, &answered{status: 204})
	for _, name := range []string{"", ".", ".."} {
		if err := a.DeleteBizType(context.Background(), name, admin.Change{}); !errors.Is(err, client.ErrInvalidRequest) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, err := a.EnableBizType(context.Background(), "", true, admin.Change{}); !errors.Is(err, client.ErrInvalidRequest) {
		t.Errorf("got %v", err)
	}
}
