package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A job is made once, however often one clicks; it is cancelled and removed, and another one is
// downloaded.
func TestJobs(t *testing.T) {
	t.Parallel()
	w := alone(t, withTokens()...)
	p := w.visit("#/jobs")
	p.See("No jobs.")
	p.Looks("jobs-none")
	p.Go("/console#/biz-types/order/numbers")
	p.Click("link", "New job")
	must.Equal(t, p.Value("Biz type*"), "order", "the biz type")
	p.Type("How many*", "300000")
	p.Choose("Format", "CSV*")
	p.Type("Name", "Spring 50%/50")
	p.Axe("new job")
	p.Looks("job-new")
	p.Eval(`{ const b = document.querySelector("form button"); b.click(); b.click(); }`, nil)
	p.See("Spring 50%/50", "300,000 of 300,000", "done")
	p.Axe("job")
	p.Looks("job")
	must.Equal(t, len(w.get("/jobs")["jobs"].([]any)), 1, "jobs after a double click")
	name, csv := p.Download(func() { p.Click("button", "Download") })
	must.Equal(t, name, "Spring 50%-50.csv", "the name of the file")
	must.Equal(t, strings.HasPrefix(csv, "id\n100\n") && strings.Count(csv, "\n") == 300_001, true, "the file has the header and 300,000 lines")

	p.Go("/console#/jobs?new=1&bizType=order")
	p.Type("How many*", "1000000000")
	p.Click("button", "Create")
	p.See("running", "node")
	p.Looks("job-running")
	p.Click("button", "Cancel…")
	dialog := p.In("dialog", "Cancel the job*")
	p.Axe("cancel job")
	dialog.Click("button", "Go on")
	p.AwaitNone("dialog", "*")
	p.Go("/console#/jobs?bizType=order")
	p.See("Jobs of order", "Spring 50%/50", "running", "done")
	p.Axe("jobs")
	p.Looks("jobs")
	must.Equal(t, p.Names("rowheader")[1], "Spring 50%/50", "the job below the one that runs")
	p.Click("link", p.Names("rowheader")[0])
	p.Click("button", "Cancel…")
	dialog.Click("button", "Cancel the job")
	p.AwaitNone("dialog", "*")
	p.See("cancelled")
	p.Find("button", "Download what there is")
	p.Click("button", "Remove…")
	p.In("dialog", "Remove the job*").Click("button", "Remove")
	p.SeeNot("cancelled")
	p.See("Spring 50%/50")

	p.Go("/console#/jobs?new=1&bizType=order")
	p.Type("How many*", "10")
	p.Choose("Again", "Each week")
	p.Type("Time zone", "Europe/Nowhere")
	expectStatus(p, "404", "400", "403")
	p.Click("button", "Create")
	refusedAt(p, "Time zone")
	p.Type("Time zone", "Europe/Berlin")
	p.Click("button", "Create")
	p.See("scheduled", "each week, by the clock of Europe/Berlin")
	p.Click("button", "Cancel…")
	p.In("dialog", "Cancel the job*").See("It makes no further jobs.")
	dialog.Click("button", "Cancel the job")
	p.AwaitNone("dialog", "*")
	p.See("cancelled")
	p.Click("button", "Remove…")
	p.In("dialog", "Remove the job*").Click("button", "Remove")
	p.SeeNot("cancelled")
	p.Click("link", "New job")
	p.Type("Biz type*", "nothing")
	p.Type("How many*", "1")
	p.Eval(`document.querySelector("[name=at]").value = "2030-01-01T00:00"`, nil)
	p.Click("button", "Create")
	p.See("a year ahead")
	p.Eval(`document.querySelector("[name=at]").value = ""`, nil)
	p.Click("button", "Create")
	refusedAt(p, "Biz type*")
	p.Click("link", "Cancel")
	p.Click("button", "Leave")
	p.Click("link", "Spring 50%/50")
	p.Find("button", "Download")
	w.curl(http.StatusNoContent, "DELETE", "/jobs/"+jobIn(w, "Spring 50%/50"), "")
	p.See("There is no such job")

	p.Click("button", "Sign out")
	p.Find("heading", "Sign in")
	p.Go("/console#/jobs")
	w.signIn(p, callerSecret)
	p.See("Only jobs that this token made are listed.", "No jobs.")
}

// jobIn returns the ID of the job that has a name. The schedule may have made one, too.
func jobIn(w *world, name string) (id string) {
	w.Helper()
	for _, job := range w.get("/jobs")["jobs"].([]any) {
		if job := job.(map[string]any); job["name"] == name {
			id = job["id"].(string)
		}
	}
	return id
}
