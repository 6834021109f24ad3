package webhook

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestEchoedURL checks that the log shows only the host of the URL, whatever the host answers.
func TestEchoedURL(t *testing.T) {
	echo := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // an echo service, or a proxy that repeats what it did not understand
				defer c.Close()
				line, _ := bufio.NewReader(c).ReadString('\n')
				_, _ = c.Write([]byte(line))
			}()
		}
	}()
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// a redirect with two ports
		w.Header()["Location"] = []string{"https://ops:8443:443" + r.URL.RequestURI()}
		w.WriteHeader(http.StatusMovedPermanently)
	}))
	defer redirects.Close()
	for name, url := range map[string]string{"echo": "http://" + echo.Addr().String(), "redirect": redirects.URL} {
		w, log := open(t, url+"/seqd?token=hunter2", func(s *Settings) { s.Retries = 0 })
		refuse(w, 1)
		shut(t, w)
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: logged %s", name, log)
		}
	}
}
