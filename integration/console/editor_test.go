package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// A biz type is created on the form: problems are at their fields, the difference is shown before.
func TestCreate(t *testing.T) {
	t.Parallel()
	w := alone(t)
	p := w.visit("#/new")
	expectStatus(p, "400", "503") // of a biz type that is not initialised yet
	p.Find("heading", "New biz type")
	p.See("Not created yet · it needs a name. The first ID looks like 1")
	p.Axe("new biz type")
	p.Looks("new")
	p.Type("Name", "9lives")
	refusedAt(p, "Name")
	p.Type("start", "700")
	p.Type("step", "many")
	refusedAt(p, "step") // the name does not hide what else is wrong
	refusedAt(p, "Name")
	p.See("The name is not allowed: begin with a letter", "2 problems")
	p.Type("Name", "refund")
	p.See("1 problem")
	p.Click("button", "Create…") // leads to the problem
	p.AwaitThat("step has the focus", func() bool { return p.Focused().Name == "step" })
	p.Axe("new biz type with a problem")
	p.Looks("new-problem")
	p.Type("step", "250")
	p.See("checked: no problems")

	p.Choose("The plugin to add", "format")
	p.Click("button", "Add plugin")
	p.Type("template*", "R-{yyyy}-{seq:06}")
	refusedAt(p, "template*")
	p.See("{date:2006} (the year)")
	p.Type("template*", "R-{seq:06}")
	p.See("checked: no problems. The first ID looks like R-000700")
	p.Click("button", "Create…")
	dialog := p.In("dialog", "Create refund?")
	dialog.See("start", "700", "step", "250", "1. format template", "R-{seq:06}", "The first ID looks like R-000700")
	p.Axe("create")
	p.Shot("create-light")
	dialog.Click("button", "Create")
	p.Find("heading", "refund")
	p.See("version 1")
	if got := w.get("/seq/refund"); got["id"] != "R-000700" {
		t.Errorf("curl got %v", got)
	}
}

// A change shows what changes, also as JSON; leaving asks before anything typed is lost.
func TestEdit(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/order/edit")
	p.Type("step", "777")
	p.See("1 setting changed", "checked: no problems")
	p.Click("link", "Access")
	asks := p.Find("dialog", "*")
	p.In("dialog", asks.Name).Click("button", "Stay*")
	must.Equal(t, p.Value("step"), "777", "step after staying")
	p.Click("button", "JSON")
	p.See("Definition")
	p.Axe("edit as JSON")
	p.Looks("edit-json")
	p.Click("button", "Form")
	must.Equal(t, p.Value("step"), "777", "step after looking at the JSON")
	p.Type("start", "50")
	p.See("it has no effect if they have issued beyond it already") // a warning at the field
	if e := p.FindField("start"); !strings.Contains(e.Description, "has no effect") {
		t.Errorf("the warning is not described: %+v", e)
	}
	p.Looks("edit-warning")
	p.Type("start", "100")
	p.Click("button", "Save…")
	dialog := p.In("dialog", "Save order?")
	dialog.See("step", "777")
	p.Axe("save")
	p.Shot("save-light")
	dialog.Click("button", "Save")
	p.See("version 2")
	must.Equal(t, field(w.get("/biz-types/order"), "definition.step"), "777", "curl says that step")
}

// Another administrator changes the biz type while somebody edits it: nothing is overwritten, and
// nothing that was typed is lost.
func TestEditConflict(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/order/edit")
	expectStatus(p, "412")
	p.Type("step", "777")
	p.See("checked: no problems")
	w.curl(http.StatusOK, "PATCH", "/biz-types/order", `{"step":333,"start":200}`)
	p.Click("button", "Save…")
	p.See("Somebody changed order meanwhile", "It is version 2 now.")
	must.Equal(t, p.Value("step"), "777", "step, as it was typed,")
	p.Axe("edit with a conflict")
	p.Looks("edit-conflict")
	p.Click("button", "Compare")
	dialog := p.In("dialog", "order was changed meanwhile")
	dialog.See("777", "333", "200", "It is version 2 now")
	p.Axe("compare")
	p.Looks("compare")
	dialog.Click("button", "Use this")
	p.AwaitNone("dialog", "order was changed meanwhile")
	if step, start := p.Value("step"), p.Value("start"); step != "777" || start != "200" {
		t.Errorf("step is %q and start %q, want mine, 777, and theirs, 200", step, start)
	}
	p.See("Version 2, changed")
	p.Click("button", "Save…")
	p.In("dialog", "Save order?").Click("button", "Save")
	p.See("version 3")
	now := w.get("/biz-types/order")
	if field(now, "definition.step") != "777" || field(now, "definition.start") != "200" {
		t.Errorf("curl says %v", now)
	}
}

// A definition whose IDs could repeat is not saved without the name being typed.
func TestEditRepeats(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	w.curl(http.StatusOK, "GET", "/seq/order", "")
	p := w.visit("#/biz-types/order/edit")
	expectStatus(p, "409", "503")
	p.Click("radio", "snowflake*")
	p.See("IDs could repeat")
	p.Axe("edit that could repeat")
	p.Looks("edit-repeats")
	p.Click("button", "Save…")
	dialog := p.In("dialog", "Save order?")
	dialog.Click("button", "Save all the same")
	dialog.See("This is not order.")
	p.Axe("save all the same")
	p.Shot("save-forced-light")
	dialog.Type("Type order*", "order")
	dialog.Click("button", "Save all the same")
	p.See("version 2", "snowflake")
}

// A biz type is disabled, enabled, and deleted by typing its name.
func TestDisableAndDelete(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/order")
	p.Click("button", "Disable…")
	dialog := p.In("dialog", "Disable order?")
	dialog.See("refuse requests for numbers")
	p.Axe("disable")
	p.Shot("disable-light")
	dialog.Click("button", "Disable")
	p.See("Disabled. Requests for numbers are refused")
	w.curl(http.StatusConflict, "GET", "/seq/order", "")
	p.Looks("biz-type-disabled")
	expectStatus(p, "409", "412")
	p.Click("link", "Numbers")
	p.Click("button", "Take")
	p.Find("alert", "")
	p.Shot("numbers-disabled")

	p.Go("/console#/biz-types/order/overview")
	p.Click("button", "Enable…")
	w.curl(http.StatusOK, "PATCH", "/biz-types/order", `{"step":333}`) // another administrator
	dialog = p.In("dialog", "Enable order?")
	dialog.Click("button", "Enable")
	dialog.See("The biz type order is version 3 now.", "Nothing was done.")
	p.See("· version 3") // behind the dialog
	p.Axe("enable a version that is not the newest")
	p.Shot("enable-conflict-light")
	dialog.Click("button", "Enable")
	p.See("No fault")
	w.curl(http.StatusOK, "GET", "/seq/order", "")

	p.Click("button", "Delete…")
	p.Find("dialog", "Delete order?")
	p.Eval(`void (location.hash = "#/access")`, nil) // as Back does
	p.AwaitNone("dialog", "*")
	p.Find("heading", "Access")
	p.Go("/console#/biz-types/order/overview")
	p.Click("button", "Delete…")
	w.curl(http.StatusOK, "PATCH", "/biz-types/order", `{"step":444}`)
	dialog = p.In("dialog", "Delete order?")
	dialog.Type("Type order to confirm", "order")
	dialog.Click("button", "Delete")
	dialog.See("The biz type order is version 5 now.")
	dialog.Type("Type order to confirm", "ordr")
	dialog.Click("button", "Delete")
	dialog.See("This is not order.")
	p.Axe("delete")
	p.Shot("delete-light")
	dialog.Type("Type order to confirm", "order")
	dialog.Click("button", "Delete")
	p.Find("heading", "Biz types")
	p.See("2 biz types.")
	w.curl(http.StatusNotFound, "GET", "/seq/order", "")
}
