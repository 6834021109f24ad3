package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/server/config"
)

// errNoCertificate is what is wrong with a file that holds something else.
var errNoCertificate = errors.New("server.tls.certFile: there is no certificate in it")

// encryption returns how connections are encrypted, nil for not at all. The files are looked at
// again until ctx ends.
func (r *runtime) encryption(ctx context.Context) (*tls.Config, error) {
	if !r.cfg.Server.TLS.Configured() {
		return nil, nil
	}
	c := &certificate{files: r.cfg.Server.TLS, now: r.now, log: r.log}
	if err := c.load(); err != nil {
		return nil, err
	}
	go c.watch(ctx, r.certLook)
	return c.settings(), nil
}

// certificate is what the service shows to callers, read again when its files change. Connections
// that stand keep what they began with.
type certificate struct {
	files   config.TLS
	now     func() time.Time
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]
	// What the latest look found: the texts of the files, and what was logged of them. They belong
	// to whoever looks.
	cert, key string
	logged    string
}

// settings are those of the listener.
func (c *certificate) settings() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// load reads the files. Its error names the key whose file is wrong, and shows nothing of a file.
func (c *certificate) load() error {
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
	c.log.Info("the certificate of the service was read", "subject", pair.Leaf.Subject.String(), "notAfter", pair.Leaf.NotAfter)
	if now := c.now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		c.log.Warn("the certificate of the service is not valid now", "notBefore", pair.Leaf.NotBefore, "notAfter", pair.Leaf.NotAfter)
	}
	return nil
}

// pairOf is tls.X509KeyPair with errors that name the key.
func pairOf(cert, key []byte) (tls.Certificate, error) {
	if firstCertificate(cert) == nil {
		return tls.Certificate{}, errNoCertificate
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("server.tls.keyFile: it is not a key of the certificate in server.tls.certFile: %w", err)
	}
	return pair, nil
}

// firstCertificate is the one of a PEM text that a server shows as its own, nil where there is none
// that can be read.
func firstCertificate(text []byte) *x509.Certificate {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			certificate, _ := x509.ParseCertificate(block.Bytes)
			return certificate
		}
	}
	return nil
}

// look reads the files again. What cannot be used is logged once, and what was read before stays.
func (c *certificate) look() {
	err := c.load()
	switch {
	case err == nil:
		c.logged = ""
	case err.Error() != c.logged:
		c.logged = err.Error()
		c.log.Error("the certificate of the service cannot be read again; the one of before stays", "error", err)
	}
}

// watch looks at every interval until ctx ends.
func (c *certificate) watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.look()
		}
	}
}
