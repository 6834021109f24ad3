// Package certificatetest makes certificates for tests.
package certificatetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd/server/config"
)

// Pair makes a certificate for localhost that signs itself, and its key, as PEM.
func Pair(t *testing.T, subject string, until time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: subject}, DNSNames: []string{"localhost"},
		NotBefore: until.Add(-time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// Files are the files of a certificate in a folder of the test.
func Files(t *testing.T) config.TLS {
	dir := t.TempDir()
	return config.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
}

// Put writes the files.
func Put(t *testing.T, files config.TLS, cert, key []byte) {
	t.Helper()
	for name, text := range map[string][]byte{files.CertFile: cert, files.KeyFile: key} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
