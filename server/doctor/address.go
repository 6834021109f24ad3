package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/seqd/seqd/server/config"
)

// addressCheck looks at what callers connect to.
type addressCheck struct{ d *Doctor }

// run checks the port, the advertised addresses, the open files and the certificate.
func (c addressCheck) run(ctx context.Context, f *findings) {
	c.port(ctx, f, "server.addr", c.d.Config.Server.Addr)
	if resp := c.d.Config.Resp; resp.Configured() {
		c.port(ctx, f, "resp.addr", resp.Addr)
	}
	c.advertised(f)
	c.openFiles(f)
	c.certificate(f)
}

// port finds out whether an address of the configuration can be listened on.
func (c addressCheck) port(ctx context.Context, f *findings, key, addr string) {
	err := c.d.Host.Listen(addr)
	switch {
	case err == nil:
		f.ok(key, "%s is free", addr)
	case errors.Is(err, syscall.EADDRINUSE):
		if said, err := c.d.Ask(ctx); err != nil {
			f.add(Fail, key, "stop what has it, or take another one", "%s is in use, and not by a seqd that is alive: %v", addr, err)
		} else {
			f.add(Info, key, "", "%s is in use by a running seqd: %s", addr, said)
		}
	case errors.Is(err, syscall.EACCES):
		f.add(Fail, key, "take a port from 1024 on, or give the process the right to low ones", "%s may not be listened on: %v", addr, err)
	default:
		f.add(Fail, key, "use an address of this machine", "%s cannot be listened on: %v", addr, err)
	}
}

// advertised finds out whether the addresses under which machine IDs are leased belong to this
// machine.
func (c addressCheck) advertised(f *findings) {
	own, err := c.d.Host.Addrs()
	if err != nil {
		f.add(Info, "advertiseIp", "", "the addresses of this machine cannot be told: %v", err)
		return
	}
	for _, b := range c.d.Config.BizTypes {
		text, _ := config.Setting[string](b.Settings, "advertiseIp")
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(own, ip.Unmap()) {
			f.add(Warn, b.Name+".advertiseIp", "set it to one of this machine's, or leave it out; behind address translation it may be meant so", "%s is not an address of this machine", ip)
		}
	}
}

// spareFiles are the open files that are not connections of callers.
const spareFiles = 256

func (c addressCheck) openFiles(f *findings) {
	most, known := c.d.Host.OpenFiles()
	wanted := c.d.Config.Server.MaxConnections
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

// certificate checks the files of server.tls.
func (c addressCheck) certificate(f *findings) {
	files := c.d.Config.Server.TLS
	if !files.Configured() {
		return
	}
	filesCheck(c).pair(f, "server.tls", files.CertFile, files.KeyFile)
}
