package console

import (
	"net/http"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
)

// A pool of worker IDs is made, changed and deleted, and shows who holds what.
func TestWorkers(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	p := w.visit("#/workers")
	p.See("No pools yet.")
	p.Looks("workers-none")
	p.Click("link", "New pool")
	p.Type("Name", "shop")
	p.Type("Bits of the worker ID*", "17")
	p.Axe("new pool")
	p.Looks("pool-new")
	expectStatus(p, "400", "412", "409")
	p.Click("button", "Create")
	p.See("17 is outside 1 to 16")
	p.Axe("new pool with a problem")
	p.Type("Bits of the worker ID*", "2")
	p.Click("button", "Create")
	p.Find("heading", "shop")
	p.See("4 worker IDs, 4,096 numbers a millisecond each", "Nobody holds a worker ID.")
	p.Axe("pool")
	p.Go("/console#/workers")
	p.Click("link", "New pool")
	p.Type("Name", "shop")
	p.Click("button", "Create")
	p.See("There is a pool of this name already")
	p.Click("link", "Cancel")
	p.Click("button", "Leave")

	lessee := []string{"Authorization", "Bearer " + decode(w, w.curl(http.StatusCreated, "POST", "/tokens", `{"name":"till","scopes":["lease:shop"]}`).body)["secret"].(string)}
	w.curl(http.StatusCreated, "POST", "/workers/shop", `{"instance":"till.8080.10.0.0.7"}`, lessee...)
	p.Click("link", "shop")
	p.See("till.8080.10.0.0.7")
	p.Axe("pool with a holder")
	p.Looks("pool")
	p.Go("/console#/workers")
	p.See("shop", "30s")
	p.Axe("workers")
	p.Looks("workers")

	p.Click("link", "shop")
	p.Click("link", "Edit")
	p.Type("Lease*", "2s")
	p.Looks("pool-edit")
	w.curl(http.StatusOK, "PATCH", "/worker-pools/shop", `{"ttl":"20s"}`) // another administrator
	p.Click("button", "Save")
	p.See("Somebody changed shop meanwhile.", "Its leases are 20s now.")
	p.Axe("pool with a conflict")
	p.Type("Bits of the sequence*", "11")
	p.Click("button", "Save")
	p.See("cannot change any more")
	p.Type("Bits of the sequence*", "12")
	p.Type("Lease*", "25s")
	p.Click("button", "Save")
	p.See("25s")

	p.Click("button", "Delete…")
	dialog := p.In("dialog", "Delete the pool shop?")
	dialog.See("Held: 1 worker ID.")
	dialog.Type("Type shop*", "shop")
	p.Axe("delete pool")
	dialog.Click("button", "Delete")
	p.AwaitNone("dialog", "*")
	p.See("No pools yet.")
	w.curl(http.StatusNotFound, "GET", "/worker-pools/shop", "")

	p.Click("button", "Sign out")
	p.Find("heading", "Sign in")
	p.Go("/console#/workers")
	w.signIn(p, readSecret)
	p.See("No pools yet.")
	disabled(p, "New pool")
}
