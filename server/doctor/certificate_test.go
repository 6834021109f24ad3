package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// pemPair writes a certificate that is valid from and until, and its key.
func pemPair(t *testing.T, from, until time.Time) (cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

func TestCertificates(t *testing.T) {
	const day = 24 * time.Hour
	look := func(cert, key string) []Finding {
		d := examined(t, "bizTypes: [{name: order}]")
		f := &findings{}
		filesCheck{d}.pair(f, "server.tls", cert, key)
		return f.all()
	}
	cert, key := pemPair(t, noon.Add(-day), noon.Add(90*day))
	quiet(t, look(cert, key))
	want(t, look(cert, filepath.Join(t.TempDir(), "none")), Fail, "server.tls.keyFile", "no such file")
	want(t, look(filepath.Join(t.TempDir(), "none"), key), Fail, "server.tls.certFile", "no such file")
	_, other := pemPair(t, noon, noon.Add(90*day))
	want(t, look(cert, other), Fail, "server.tls", "do not make a pair")
	must.Do(t, os.Chmod(key, 0o644))
	want(t, look(cert, key), Warn, "server.tls.keyFile", "chmod 600")
	if err := os.Chmod(key, 0o640); err != nil { // as secrets of a cluster are mounted
		t.Fatal(err)
	}
	quiet(t, look(cert, key))
	cert, key = pemPair(t, noon.Add(-2*day), noon.Add(-day))
	want(t, look(cert, key), Fail, "server.tls.certFile", "expired")
	cert, key = pemPair(t, noon.Add(-2*day), noon.Add(10*day))
	want(t, look(cert, key), Warn, "server.tls.certFile", "in 10 days")
	cert, key = pemPair(t, noon.Add(day), noon.Add(90*day))
	want(t, look(cert, key), Fail, "server.tls.certFile", "look at the clock")
}
