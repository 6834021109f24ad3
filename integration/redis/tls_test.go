package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// authority signs certificates and writes them to files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes NAME.crt and NAME.key, for the host 127.0.0.1 until an hour after from.
func (a *authority) issue(name string, from time.Time) {
	a.sign(name, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: from}, a.cert, a.key)
}

func (a *authority) sign(name string, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Do(a.t, err)
	template.SerialNumber, template.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Minute)
	}
	template.NotAfter = template.NotBefore.Add(time.Hour)
	if parent == nil {
		parent, signer = template, key
	}
	der, err1 := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	keyDER, err2 := x509.MarshalECPrivateKey(key)
	cert, err3 := x509.ParseCertificate(der)
	err = errors.Join(err1, err2, err3,
		os.WriteFile(a.file(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	must.Do(a.t, err)
	return cert, key
}

// startTLS starts a server with a second port for TLS that requires client certificates, and
// returns the address of that port.
func (a *authority) startTLS(name string) string {
	a.t.Helper()
	addr := testenv.ReserveAddr(a.t)
	testenv.StartRedis(a.t, "tls-port "+port(addr), "tls-cert-file "+a.file(name+".crt"), "tls-key-file "+a.file(name+".key"), "tls-ca-cert-file "+a.file("ca.crt"))
	return addr
}

func port(addr string) string { _, port, _ := strings.Cut(addr, ":"); return port }

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	ours.issue("server", time.Now().Add(-time.Minute))
	ours.issue("client", time.Now().Add(-time.Minute))
	ours.issue("expired", time.Now().Add(-2*time.Hour))
	theirs.issue("client", time.Now().Add(-time.Minute))
	addr := ours.startTLS("server")
	on := func(addr string, a *authority, more ...string) []string {
		return settings(addr, append([]string{"SEQD_REDIS_TLS_ENABLED=true", "SEQD_REDIS_TLS_CAFILE=" + a.file("ca.crt")}, more...)...)
	}
	client := func(a *authority) []string {
		return []string{"SEQD_REDIS_TLS_CERTFILE=" + a.file("client.crt"), "SEQD_REDIS_TLS_KEYFILE=" + a.file("client.key")}
	}
	accepts(t, on(addr, ours, client(ours)...))
	refuses(t, on(addr, theirs, client(ours)...), "redis.tls.caFile", "unknown authority")
	refuses(t, on(addr, ours, append(client(ours), "SEQD_REDIS_TLS_SERVERNAME=redis.example")...), "redis.tls.serverName", "redis.example")
	refuses(t, on(addr, ours), "redis.tls.certFile: ", "certificate")
	refuses(t, on(addr, ours, client(theirs)...), "redis.tls.certFile: ", "certificate")
	refuses(t, on(ours.startTLS("expired"), ours, client(ours)...), "redis.tls.caFile", "expired")
	refuses(t, on(addr, ours, "SEQD_REDIS_TLS_CERTFILE="+ours.file("ca.crt"), "SEQD_REDIS_TLS_KEYFILE="+ours.file("client.key")), "redis.tls.certFile, redis.tls.keyFile: ")
	refuses(t, on(addr, &authority{dir: t.TempDir()}), "redis.tls.caFile: ")
	// If only one side uses TLS, the server closes the connection or does not answer, like a server
	// that is shutting down.
	for _, env := range [][]string{settings(addr), on(testenv.StartRedis(t).Addr(), ours, client(ours)...)} {
		n := node.StartReady(t, t.TempDir(), env...)
		n.AwaitLog("Redis cannot be used now")
		n.Stop()
		wantText(t, n.Log(), "redis.addrs")
	}
}
