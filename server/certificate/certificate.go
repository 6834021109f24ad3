// Package certificate reads the certificate of the service and its key, and reads them again when
// the files change, so that a renewed certificate needs no restart.
//
// It depends on the file names in the configuration, a clock and a log. Other settings of TLS
// belong into [Certificate.Settings].
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/server/config"
)

// ErrNone is returned when server.tls.certFile holds no certificate.
var ErrNone = errors.New("server.tls.certFile: there is no certificate in it")

// Certificate is what the service shows to callers. A change of its files affects new connections
// only.
type Certificate struct {
	files   config.TLS
	now     func() time.Time
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]
	looking sync.Mutex // guards what follows
	// The texts of the files when they were last read, and the last problem that was logged.
	cert, key string
	logged    string
	failures  atomic.Int64
	stale     atomic.Bool
}

// Open reads the files. Its error names the key whose file is wrong, and shows nothing of a file.
func Open(files config.TLS, now func() time.Time, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{files: files, now: now, log: log}
	return c, c.load()
}

// Settings are those of the listener. TLS 1.2 has no CBC: each suite encrypts and authenticates in
// one.
func (c *Certificate) Settings() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}

// load reads the files, and keeps what was read before if they cannot be used.
func (c *Certificate) load() error {
	cert, err := os.ReadFile(c.files.CertFile)
	if err != nil {
		return fmt.Errorf("server.tls.certFile: %w", err)
	}
	key, err := os.ReadFile(c.files.KeyFile)
	if err != nil {
		return fmt.Errorf("server.tls.keyFile: %w", err)
	}
	if c.cert == string(cert) && c.key == string(key) {
		return nil
	}
	pair, err := pairOf(cert, key)
	if err != nil {
		return err
	}
	c.cert, c.key = string(cert), string(key)
	c.current.Store(&pair)
	leaf := pair.Leaf
	c.log.Info("the certificate of the service was read", "subject", leaf.Subject.String(), "notAfter", leaf.NotAfter)
	if now := c.now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		c.log.Warn("the certificate of the service is not valid now", "notBefore", leaf.NotBefore, "notAfter", leaf.NotAfter)
	}
	return nil
}

// pairOf is tls.X509KeyPair with errors that name the key.
func pairOf(cert, key []byte) (tls.Certificate, error) {
	if First(cert) == nil {
		return tls.Certificate{}, ErrNone
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("server.tls.keyFile: it is not a key of the certificate in server.tls.certFile: %w", err)
	}
	return pair, nil
}

// First returns the certificate of a PEM text that a server shows as its own: the first. It returns
// nil if there is none or it cannot be parsed.
func First(text []byte) *x509.Certificate {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certificate, _ := x509.ParseCertificate(block.Bytes)
			return certificate
		}
	}
	return nil
}

// Look reads the files again, and reports whether there was another certificate in them. A problem is
// logged once.
func (c *Certificate) Look() (renewed bool, err error) {
	c.looking.Lock()
	defer c.looking.Unlock()
	before := c.current.Load()
	err = c.load()
	c.stale.Store(err != nil)
	switch {
	case err == nil:
		c.logged = ""
	case err.Error() != c.logged:
		c.failures.Add(1)
		c.logged = err.Error()
		c.log.Error("the certificate of the service cannot be read again; the previous one stays", "error", err)
	}
	return c.current.Load() != before, err
}

// State returns until when the certificate is valid, how often it could not be read again, and whether
// that is so now. The same problem at several looks counts once.
func (c *Certificate) State() (until time.Time, failures int64, stale bool) {
	return c.current.Load().Leaf.NotAfter, c.failures.Load(), c.stale.Load()
}

// Watch reads the files at every interval until ctx ends.
func (c *Certificate) Watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = c.Look() // it is logged
		}
	}
}
