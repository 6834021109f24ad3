package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
)

// ask sends a request with a token, or without one for "", and returns status and body.
func (s *service) ask(client *http.Client, method, path, secret, body string) (int, string) {
	s.t.Helper()
	r := must.Get(http.NewRequest(method, s.url+path, strings.NewReader(body)))(s.t)
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	resp := must.Get(client.Do(r))(s.t)
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(s.t)
	return resp.StatusCode, strings.TrimSuffix(string(text), "\n")
}

func (s *service) want(status int, method, path, secret, body string) string {
	s.t.Helper()
	got, text := s.ask(http.DefaultClient, method, path, secret, body)
	if got != status {
		s.t.Fatalf("%s %s got %d, want %d: %s", method, path, got, status, text)
	}
	return text
}

func withToken(path string) string {
	return fmt.Sprintf("store: {bolt: {path: %s, lockTimeout: 1m}}\nbizTypes: [{name: order}]\nauth: {tokens: [{name: ops, sha256: %q, scopes: [admin]}]}\n",
		path, access.DigestOf("ops-secret").Hex())
}

// A token created by the API is accepted at once, and after a restart as soon as the store is open.
func TestTokensOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	cfg := load(t, withToken(path))
	s := start(t, cfg)
	s.await("/readyz", http.StatusOK)
	s.want(401, "GET", "/seq/order", "", "")
	var made struct{ Secret string }
	must.Do(t, json.Unmarshal([]byte(s.want(201, "POST", "/tokens", "ops-secret", `{"name":"shop","scopes":["issue:o*"]}`)), &made))
	must.Equal(t, s.want(200, "GET", "/seq/order", made.Secret, ""), `{"bizType":"order","id":"1"}`)
	s.want(403, "GET", "/seq/order", "ops-secret", "")
	must.Do(t, s.stop())

	holder := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	s = start(t, cfg)
	wantCode(t, s.want(503, "GET", "/seq/order", made.Secret, ""), seqd.CodeStarting)
	wantCode(t, s.want(401, "GET", "/seq/order", "", ""), seqd.CodeUnauthorized)
	// that of the configuration is known
	wantCode(t, s.want(403, "GET", "/seq/order", "ops-secret", ""), seqd.CodeForbidden)
	wantCode(t, s.want(503, "GET", "/tokens", "ops-secret", ""), seqd.CodeStarting)
	must.Do(t, holder.Close())
	await.True(t, "it issues after the restart", func() bool {
		status, body := s.ask(http.DefaultClient, "GET", "/seq/order", made.Secret, "")
		if status != 200 && status != 503 {
			t.Fatalf("after the restart it got %d: %s", status, body)
		}
		return status == 200
	})
	s.want(204, "DELETE", "/tokens/shop", "ops-secret", "")
	s.want(401, "GET", "/seq/order", made.Secret, "")
}

// The modes and their log messages. The log contains no secret and no digest.
func TestAuthModes(t *testing.T) {
	tokens := fmt.Sprintf("tokens: [{name: ops, sha256: %q, scopes: [admin, \"issue:*\"]}]", access.DigestOf("ops-secret").Hex())
	for _, tt := range []struct {
		auth    string
		nobody  int
		warning string
	}{
		{"mode: auto", 200, ""},
		{tokens, 401, ""},
		{"mode: token", 401, "auth.tokens is empty"},
		{"mode: token, " + tokens, 401, ""},
		{"mode: none", 200, "auth.mode is none"},
		{"mode: none, " + tokens, 200, "auth.tokens is ignored"},
	} {
		var log testlog.Text
		s := start(t, load(t, "server: {accessLog: on}\nstore: {driver: memory}\nbizTypes: [{name: order}]\nauth: {"+tt.auth+"}\n"), server.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		s.await("/readyz", http.StatusOK)
		s.want(tt.nobody, "GET", "/seq/order", "", "")
		if strings.Contains(tt.auth, "sha256") {
			s.want(200, "GET", "/seq/order", "ops-secret", "")
		}
		must.Report(t, s.stop())
		if got := log.Count("level=WARN"); got != 0 && tt.warning == "" || log.Count(tt.warning) == 0 {
			t.Errorf("%s: %d warnings: %s", tt.auth, got, &log)
		}
		if log.Count("ops-secret") > 0 || log.Count(access.DigestOf("ops-secret").Hex()[:16]) > 0 {
			t.Errorf("the log shows a secret: %s", &log)
		}
	}
}

// An address that others can reach is not opened without tokens, even if only the name service
// knows that it is one.
func TestOpenAddress(t *testing.T) {
	cfg := load(t, "store: {driver: memory}\nbizTypes: [{name: order}]")
	open := *cfg
	open.Server.Addr = "0.0.0.0:0"
	err := server.Run(t.Context(), &open, server.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil || !strings.Contains(err.Error(), "server.addr: ") || !strings.Contains(err.Error(), "auth.tokens") || !strings.Contains(err.Error(), "auth.mode") {
		t.Errorf("error %v", err)
	}
	open.Auth.Tokens = []access.Token{{Name: "ops", Secrets: access.SecretOf("ops-secret"), Scopes: []string{"admin"}, Enabled: true}}
	var log testlog.Text
	s := start(t, &open, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must.Equal(t, log.Count("tokens cross the network in the clear"), 1, "logged %s", &log)
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	s.want(401, "GET", "/seq/order", "", "")
}

// certificateFiles writes a certificate for 127.0.0.1 into the files of a configuration.
func certificateFiles(t *testing.T, files config.TLS) *x509.CertPool {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"seqd.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	for name, block := range map[string]*pem.Block{files.CertFile: {Type: "CERTIFICATE", Bytes: der}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		must.Do(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	pool := x509.NewCertPool()
	certificate := must.Get(x509.ParseCertificate(der))(t)
	pool.AddCert(certificate)
	return pool
}

// A whole run over TLS: callers that check the certificate are served, and get the new certificate
// when the files change.
func TestRunOverTLS(t *testing.T) {
	dir := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	first := certificateFiles(t, files)
	cfg := load(t, fmt.Sprintf("server: {tls: {certFile: %s, keyFile: %s}}\nstore: {driver: memory}\nbizTypes: [{name: order}]", files.CertFile, files.KeyFile))
	s := start(t, cfg, server.WithCertificateLook(10*time.Millisecond))
	s.url = strings.Replace(s.url, "http://", "https://", 1)
	client := func(pool *x509.CertPool) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "seqd.example"}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	standing := client(first)
	await.True(t, "it issues", func() bool {
		status, _ := s.ask(standing, "GET", "/seq/order", "", "")
		return status == 200
	})
	second := client(certificateFiles(t, files))
	await.Eventually(t, "the new certificate is shown", func() error {
		resp, err := second.Get(s.url + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	})
	s.ask(standing, "GET", "/seq/order", "", "") // over the previous connection
	if resp, err := client(first).Get(s.url + "/healthz"); err == nil {
		_ = resp.Body.Close()
		t.Error("a new connection sees the old certificate")
	}
	must.Report(t, s.stop())

	must.Do(t, os.Remove(files.KeyFile))
	var log bytes.Buffer
	if err := server.Run(t.Context(), cfg, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))); err == nil || !strings.HasPrefix(err.Error(), "server.tls.keyFile: ") {
		t.Errorf("error %v", err)
	}
}
