package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/seqd/seqd/server/config"
)

// address looks at what callers connect to.
func (d *Doctor) address(ctx context.Context, f *findings) {
	d.port(ctx, f)
	d.advertised(f)
	d.openFiles(f)
	d.certificate(f)
}

// port finds out whether the address can be listened on.
func (d *Doctor) port(ctx context.Context, f *findings) {
	addr := d.Config.Server.Addr
	err := d.Host.Listen(addr)
	switch {
	case err == nil:
		f.ok("server.addr", "%s is free", addr)
	case errors.Is(err, syscall.EADDRINUSE):
		if said, err := d.Ask(ctx); err != nil {
			f.add(Fail, "server.addr", "stop what has it, or take another one", "%s is in use, and not by a seqd that is alive: %v", addr, err)
		} else {
			f.add(Info, "server.addr", "", "%s is in use by a running seqd: %s", addr, said)
		}
	case errors.Is(err, syscall.EACCES):
		f.add(Fail, "server.addr", "take a port from 1024 on, or give the process the right to low ones", "%s may not be listened on: %v", addr, err)
	default:
		f.add(Fail, "server.addr", "use an address of this machine", "%s cannot be listened on: %v", addr, err)
	}
}

// advertised finds out whether the addresses that machine IDs are leased under are those of this
// machine.
func (d *Doctor) advertised(f *findings) {
	own, err := d.Host.Addrs()
	if err != nil {
		f.add(Info, "advertiseIp", "", "the addresses of this machine cannot be told: %v", err)
		return
	}
	for _, b := range d.Config.BizTypes {
		text, _ := config.Setting[string](b.Settings, "advertiseIp")
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(own, ip.Unmap()) {
			f.add(Warn, b.Name+".advertiseIp", "set it to one of this machine's, or leave it out; behind address translation it may be meant so", "%s is not an address of this machine", ip)
		}
	}
}

// spareFiles are those that are not connections of callers.
const spareFiles = 256

func (d *Doctor) openFiles(f *findings) {
	most, known := d.Host.OpenFiles()
	wanted := d.Config.Server.MaxConnections
	switch {
	case !known:
		f.add(Info, "server.maxConnections", "", "how many files may be open cannot be told here")
	case wanted == 0:
		f.add(Warn, "server.maxConnections", "bound it", "0: callers can take all %d files that may be open, and the store gets none", most)
	case most < uint64(wanted)+spareFiles:
		f.add(Warn, "server.maxConnections", fmt.Sprintf("raise the limit (ulimit -n, LimitNOFILE) to %d, or lower server.maxConnections", wanted+spareFiles),
			"%d connections, and %d files may be open (those of this shell): seqd will use a lower bound", wanted, most)
	default:
		f.ok("server.maxConnections", "%d connections, and %d files may be open", wanted, most)
	}
}

// certificate looks at the files of server.tls.
func (d *Doctor) certificate(f *findings) {
	files := d.Config.Server.TLS
	if !files.Configured() {
		return
	}
	d.pair(f, "server.tls", files.CertFile, files.KeyFile)
}

// pair looks at a certificate and its key.
func (d *Doctor) pair(f *findings, key, certFile, keyFile string) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		f.add(Fail, key+".certFile", "", "%v", err)
		return
	}
	private, err := os.ReadFile(keyFile)
	if err != nil {
		f.add(Fail, key+".keyFile", "", "%v", err)
		return
	}
	d.secret(f, key+".keyFile", keyFile, noStranger, Warn)
	pair, err := tls.X509KeyPair(bytes.TrimSpace(cert), private)
	if err != nil {
		f.add(Fail, key, "", "%s and %s do not make a pair: %v", certFile, keyFile, err)
		return
	}
	d.expiry(f, key+".certFile", pair.Leaf)
}

func (d *Doctor) expiry(f *findings, key string, leaf *x509.Certificate) {
	now, until := d.Now(), leaf.NotAfter.UTC().Format(time.RFC3339)
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		f.add(Fail, key, "get a new one", "the certificate expired at %s", until)
	case now.Before(leaf.NotBefore):
		f.add(Fail, key, "look at the clock", "the certificate is valid from %s on only", leaf.NotBefore.UTC().Format(time.RFC3339))
	case left <= soon:
		f.add(Warn, key, "get a new one", "the certificate expires at %s, in %s", until, days(left))
	default:
		f.ok(key, "the certificate is valid until %s", until)
	}
}
