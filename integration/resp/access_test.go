package resp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// admin is a token with all rights.
const admin = "seqd_admin0000000000000000000000000"

// withTokens requires tokens.
func withTokens() []string {
	return []string{"SEQD_AUTH_MODE=token", fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"ops","sha256":"%x","scopes":["admin","issue:*"]}]`, sha256.Sum256([]byte(admin)))}
}

// do sends a request with the administrator's token.
func do(t *testing.T, n *node.Node, status int, method, path, body string) string {
	t.Helper()
	answer, err := n.Do(method, path, body, "Authorization", "Bearer "+admin)
	if err != nil || answer.Status != status {
		t.Fatalf("%s %s: %d %s, %v", method, path, answer.Status, answer.Body, err)
	}
	return answer.Body
}

// newToken creates a token that may issue numbers of order.
func newToken(t *testing.T, n *node.Node) string {
	t.Helper()
	var made struct{ Secret string }
	body := do(t, n, http.StatusCreated, http.MethodPost, "/tokens", `{"name":"shop","scopes":["issue:order"]}`)
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.Secret == "" {
		t.Fatalf("a new token: %s, %v", body, err)
	}
	return made.Secret
}

// refused requires that the answer to a command is an error that begins so.
func refused(t *testing.T, c *respconn.Conn, want, command string) {
	t.Helper()
	answer, err := c.Do(command)
	if r, is := errors.AsType[respconn.Error](err); !is || !strings.HasPrefix(string(r), want) {
		t.Errorf("%s got %v, %v; want %s", command, answer, err, want)
	}
}

// A token is needed, and what it may do holds for each command. When it is revoked, that takes effect
// at once on connections that are open, also amid a pipeline.
func TestTokens(t *testing.T) {
	n, addr := startOne(t, withTokens()...)
	secret := newToken(t, n)
	c, err := respconn.Dial(addr, patience, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, c, "NOAUTH ", "INCR order")
	refused(t, c, "NOAUTH ", "PING")
	refused(t, c, "WRONGPASS ", "AUTH seqd_wrong")
	refused(t, c, "NOAUTH ", "INCR order")
	if answer, err := c.Do("AUTH shop " + secret); answer != "OK" || err != nil {
		t.Fatalf("AUTH got %v, %v", answer, err)
	}
	first := one(t, c)
	refused(t, c, "NOPERM ", "INCR other")
	refused(t, c, "WRONGPASS ", "AUTH seqd_wrong") // and the first token stays
	if second := one(t, c); second <= first {
		t.Errorf("%d after %d", second, first)
	}
	do(t, n, http.StatusNoContent, http.MethodDelete, "/tokens/shop", "")
	refused(t, c, "NOAUTH ", "INCR order")
	refused(t, c, "WRONGPASS ", "AUTH "+secret)
}

// A token is revoked on one node while connections to another one are open: there it is refused
// as soon as that node has asked the store again.
func TestTokenRevokedElsewhere(t *testing.T) {
	members := fleet.Start(t, 2, slices.Concat(fleet.Postgres(t), withTokens(), []string{`SEQD_BIZTYPES=[{"name":"order"}]`})...)
	secret := newToken(t, members[0].Node)
	client := newClient(members[1].RESP, func(o *redis.Options) { o.Password = secret })
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	awaitIncr := func(what string, want func(error) bool) {
		t.Helper()
		await.Eventually(t, what, func() error {
			if err := client.Incr(ctx, "order").Err(); !want(err) {
				return fmt.Errorf("INCR still gets %w", err)
			}
			return nil
		})
	}
	awaitIncr("a new token", func(err error) bool { return err == nil })
	do(t, members[0].Node, http.StatusNoContent, http.MethodDelete, "/tokens/shop", "")
	awaitIncr("a revoked token", func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOAUTH") })
}

// Connections are encrypted if the service has a certificate. A client without TLS gets no number.
func TestTLS(t *testing.T) {
	cert, key, roots := certificate(t)
	addr := testenv.ReserveAddr(t)
	// not ready yet: this client of HTTP does not trust the certificate
	n := node.Start(t, t.TempDir(), "SEQD_RESP_ADDR="+addr, "SEQD_SERVER_TLS_CERTFILE="+cert, "SEQD_SERVER_TLS_KEYFILE="+key)
	client := newClient(addr, func(o *redis.Options) { o.TLSConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} })
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	await.Eventually(t, "the node starts", func() error { return client.Incr(ctx, "order").Err() })
	values, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 1000 {
			p.Incr(ctx, "order")
		}
		return nil
	})
	if err != nil || values[999].(*redis.IntCmd).Val() != values[0].(*redis.IntCmd).Val()+999 {
		t.Errorf("a pipeline got %v … %v, %v", values[0], values[999], err)
	}
	plain, err := respconn.Dial(addr, patience, nil)
	if err == nil {
		err = plain.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := plain.Do("INCR order"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without TLS: %v, %v", answer, err)
	}
	n.Stop()
}

// certificate writes a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err1 := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	keyDER, err2 := x509.MarshalECPrivateKey(private)
	parsed, err3 := x509.ParseCertificate(der)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(err1, err2, err3,
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return cert, key, roots
}
