package resp_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/certificate/certificatetest"
)

// TestTLS: a port with a certificate speaks TLS only.
func TestTLS(t *testing.T) {
	files := certificatetest.Files(t)
	cert, key := certificatetest.Pair(t, "seqd", time.Now().Add(time.Hour))
	certificatetest.Put(t, files, cert, key)
	pair := must.Get(tls.LoadX509KeyPair(files.CertFile, files.KeyFile))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	s := serve(t, func(set *settings) { set.resp.TLS = &tls.Config{Certificates: []tls.Certificate{pair}} }, define("order", newCounter(1)))

	rdb := redis.NewClient(&redis.Options{Addr: s.addr, DialTimeout: await.Patience, ReadTimeout: await.Patience, TLSConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}})
	defer rdb.Close()
	must.Equal(t, must.Get(rdb.Incr(t.Context(), "order").Result())(t), 1)
	plain := s.dial(t)
	plain.send(form("INCR", "order"))
	must.Equal(t, plain.rest(), "-ERR Protocol error: this port speaks TLS\r\n")
	must.Equal(t, must.Get(rdb.Incr(t.Context(), "order").Result())(t), 2)
	if c, err := net.Dial("tcp", s.addr); err == nil { // a client that begins and leaves
		_, _ = io.Copy(c, strings.NewReader("\x16\x03\x01"))
		c.Close()
	}
}
