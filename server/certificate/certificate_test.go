package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/certificate/certificatetest"
)

// serveTLS serves with a certificate and returns the address.
func serveTLS(t *testing.T, c *Certificate) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(l, c.Settings())) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return l.Addr().String()
}

// subjectAt makes a connection and returns for whom its certificate is.
func subjectAt(t *testing.T, addr string) string {
	t.Helper()
	c := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}))(t)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestCertificateIsReadAgain(t *testing.T) {
	files, until := certificatetest.Files(t), time.Now().Add(time.Hour)
	first, firstKey := certificatetest.Pair(t, "first", until)
	second, secondKey := certificatetest.Pair(t, "second", until)
	certificatetest.Put(t, files, first, firstKey)
	var log bytes.Buffer
	c := &Certificate{files: files, now: time.Now, log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	must.Do(t, c.load())
	addr := serveTLS(t, c)

	standing := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}))(t)
	defer standing.Close()
	ask := func() {
		t.Helper()
		must.Get(io.WriteString(standing, "GET / HTTP/1.1\r\nHost: seqd\r\n\r\n"))(t)
		var buf [1024]byte
		if n, err := standing.Read(buf[:]); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200") {
			t.Fatalf("the previous connection got %q, %v", buf[:n], err)
		}
	}
	ask()
	now := func(step, want string, errors int) {
		t.Helper()
		for range 3 {
			c.Look()
		}
		ask()
		must.Equal(t, subjectAt(t, addr), want, "%s: new connections see", step)
		_, failures, stale := c.State()
		must.Equal(t, failures, int64(errors), "%s: how often it could not be read", step)
		must.Equal(t, stale, strings.HasPrefix(step, "a key of") || strings.HasPrefix(step, "no ") || strings.HasPrefix(step, "wrong"), "%s: stale", step)
		must.Equal(t, strings.Count(log.String(), "\n"), errors, "%s: the lines in the log %s", step, &log)
	}
	now("nothing changed", "first", 0)
	certificatetest.Put(t, files, second, secondKey)
	now("both changed", "second", 0)
	certificatetest.Put(t, files, first, secondKey)
	now("a key of another one", "second", 1)
	certificatetest.Put(t, files, []byte("nothing"), secondKey)
	now("no certificate", "second", 2)
	must.Do(t, os.Remove(files.KeyFile))
	must.Do(t, os.WriteFile(files.CertFile, first, 0o600))
	now("no key", "second", 3)
	certificatetest.Put(t, files, first, firstKey)
	now("good again", "first", 3)
	certificatetest.Put(t, files, first, secondKey)
	now("wrong again", "first", 4)
}

// An error at the start names the key of the configuration, and shows nothing of the files.
func TestCertificateAtTheStart(t *testing.T) {
	cert, key := certificatetest.Pair(t, "one", time.Now().Add(time.Hour))
	_, other := certificatetest.Pair(t, "other", time.Now().Add(time.Hour))
	const secret = "hunter2"
	for name, tt := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"no certificate":       {nil, key, "server.tls.certFile: "},
		"no key":               {cert, nil, "server.tls.keyFile: "},
		"text":                 {[]byte(secret), key, "server.tls.certFile: "},
		"text for a key":       {cert, []byte(secret), "server.tls.keyFile: "},
		"a damaged one":        {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(secret)}), key, "server.tls.certFile: "},
		"the files exchanged":  {key, cert, "server.tls.certFile: "},
		"the key of another":   {cert, other, "server.tls.keyFile: "},
		"a damaged key":        {cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte(secret)}), "server.tls.keyFile: "},
		"the key in both":      {append(append([]byte{}, key...), cert...), other, "server.tls.keyFile: "},
		"a certificate in key": {cert, cert, "server.tls.keyFile: "},
	} {
		t.Run(name, func(t *testing.T) {
			files := certificatetest.Files(t)
			certificatetest.Put(t, files, tt.cert, tt.key)
			if tt.cert == nil {
				_ = os.Remove(files.CertFile)
			}
			if tt.key == nil {
				_ = os.Remove(files.KeyFile)
			}
			c := &Certificate{files: files, now: time.Now, log: slog.New(slog.DiscardHandler)}
			err := c.load()
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestExpiredCertificateIsSaid(t *testing.T) {
	files := certificatetest.Files(t)
	cert, key := certificatetest.Pair(t, "old", time.Now().Add(-time.Minute))
	certificatetest.Put(t, files, cert, key)
	var log bytes.Buffer
	c := &Certificate{files: files, now: time.Now, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := c.load(); err != nil || !strings.Contains(log.String(), "is not valid now") {
		t.Errorf("%v; logged %s", err, &log)
	}
}

// The files are looked at once in each interval, and not after the end.
func TestCertificateWatch(t *testing.T) {
	files := certificatetest.Files(t)
	synctest.Test(t, func(t *testing.T) {
		first, firstKey := certificatetest.Pair(t, "first", time.Now().Add(time.Hour))
		second, secondKey := certificatetest.Pair(t, "second", time.Now().Add(time.Hour))
		certificatetest.Put(t, files, first, firstKey)
		c := &Certificate{files: files, now: time.Now, log: slog.New(slog.DiscardHandler)}
		must.Do(t, c.load())
		subject := func(want string) {
			t.Helper()
			must.Equal(t, c.current.Load().Leaf.Subject.CommonName, want, "it is for")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.Watch(ctx, 5*time.Second); close(ended) }()
		synctest.Wait()
		certificatetest.Put(t, files, second, secondKey)
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		subject("first")
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		subject("second")
		cancel()
		<-ended
	})
}

// Old versions of TLS, and suites with CBC, are refused.
func TestOldVersionsOfTLS(t *testing.T) {
	files := certificatetest.Files(t)
	cert, key := certificatetest.Pair(t, "one", time.Now().Add(time.Hour))
	certificatetest.Put(t, files, cert, key)
	c := &Certificate{files: files, now: time.Now, log: slog.New(slog.DiscardHandler)}
	must.Do(t, c.load())
	addr := serveTLS(t, c)
	cbc := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA}}
	if conn, err := tls.Dial("tcp", addr, cbc); err == nil {
		t.Error("CBC is accepted")
		_ = conn.Close()
	}
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
