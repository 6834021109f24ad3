package ops

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/doctor"
)

// What has the port counts as seqd when a healthcheck says so, and not because it answers in JSON,
// or sends us to one that does.
func TestDoctorTakesNothingElseForSeqd(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"another service": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				http.NotFound(w, r)
			}
			_, _ = io.WriteString(w, `{"status":"ready"}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/elsewhere") {
				_, _ = io.WriteString(w, `{"status":"ok"}`)
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := must.Get(config.LoadYAML([]byte("store: {driver: memory}\nbizTypes: [{name: order}]\n"), config.Sources{Flags: map[string]string{"server.addr": stranger(t, h)}}))(t)
			sections := Doctor(t.Context(), cfg, nil)
			var report strings.Builder
			doctor.Print(&report, sections)
			if failed := doctor.Failed(sections); !failed || !strings.Contains(report.String(), "not by a seqd that is alive") {
				t.Errorf("failed is %t, and it says %s", failed, &report)
			}
		})
	}
}
