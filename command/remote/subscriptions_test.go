package remote_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A subscription is made, shown, replayed and deleted in the service itself.
func TestSubscriptions(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: order}]\n")
	must.Equal(t, l.until("subscriptions", "list"), outcome{0, "NAME  VERSION  ENABLED  BIZ TYPES  TYPES  URL  CHANGED\n", ""})
	made := l.run("subscriptions", "put", "shop", "http://127.0.0.1:9/hook", "--biz-type", "order", "--type", "number.void")
	if made.code != 0 || !strings.Contains(made.out, "shop  1        true     order      number.void  http://127.0.0.1:9/hook") || !strings.Contains(made.out, "\nwhsec_") {
		t.Errorf("%+v", made)
	}
	got := l.run("subscriptions", "get", "shop")
	if !strings.Contains(got.out, "\nBIZ TYPE  POSITION\norder     0\n0 pending, 0 dead, 0 missed; node ") || strings.Contains(got.out, "whsec_") {
		t.Errorf("%+v", got)
	}
	l.want("KEY  STATE  ATTEMPTS  NEXT  ERROR\n", "subscriptions", "deliveries", "shop", "--state", "dead")
	l.want("shop: they are sent again\n", "subscriptions", "replay", "shop", "--dead")
	l.wantError(78, "there is no --biz-type", "subscriptions", "put", "shop", "http://a")
	l.wantError(1, "precondition_failed", "subscriptions", "put", "shop", "http://a", "--biz-type", "order", "--if-match", "7")
	l.wantError(1, "invalid_request: state", "subscriptions", "deliveries", "shop", "--state", "x")
	l.wantError(1, "unknown_subscription: there is no subscription \"shoe\"; seqd subscriptions list shows what there is", "subscriptions", "get", "shoe")
	must.Equal(t, l.run("__complete", "subscriptions", "get", "s").out, "shop\n:4\n")
	l.want("shop: deleted\n", "subscriptions", "delete", "shop", "--yes")
}
