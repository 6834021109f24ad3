package snowflake

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/coordslots"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// instanceOf returns the file name and the key of an instance that listens on an address.
func instanceOf(addr string, settings *Settings) (file, key string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "", fmt.Errorf("the address %q that the node listens on: %w", addr, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", fmt.Errorf("the address %q that the node listens on: %w", addr, err)
	}
	ip := ownIP(settings.AdvertiseIP, host)
	return statefile.Name(settings.AppName, int(number), ip), settings.AppName + "." + port + "." + statefile.Number(ip), nil
}

// newMember returns the member for these valid settings, without its key.
func newMember(env strategy.Env, settings *Settings, l *layout) machineid.Member {
	first, last := settings.machineIDs()
	return machineid.Member{
		Layout: l.text(), Cluster: env.Cluster, First: first, Last: last,
		Horizon: settings.Horizon.Milliseconds(), MaxSkew: settings.MaxSkew.Milliseconds(), Offline: settings.OfflineStart.Milliseconds(),
		Floored: settings.Registry != registryStore || env.Store.Shared(), Doubtful: settings.Registry == registryCoord,
	}
}

// registryName returns the name of the registry for a layout. Each layout has its own, because
// machine IDs only separate the numbers of one layout.
func registryName(l *layout) string { return "machineIds " + l.text() }

// openRegistry returns the registry in which machine IDs are leased. If it is only read, nothing is
// written to it.
func openRegistry(env strategy.Env, settings *Settings, reading bool) (persist.SlotStore, error) {
	switch {
	case settings.Registry == registryStore:
		return env.Store.Slots(), nil
	case settings.Registry == registryCoord && env.Coordinator == nil:
		return nil, errors.New("registry: coordinator needs coordination.driver to be consul or zookeeper")
	case settings.Registry == registryCoord:
		return coordslots.Open(coordslots.Options{Documents: env.Coordinator, Clock: env.Store, Patience: settings.MaxSkew, Reading: reading}), nil
	case env.Redis == nil:
		return nil, errors.New("registry: redis needs redis.addrs")
	}
	return redisslots.Open(redisslots.Options{Client: env.Redis, Prefix: env.RedisPrefix, Cluster: env.Cluster}), nil
}

// ownIP returns the address that identifies this node: the configured one, else the one it listens
// on, else one of the machine.
func ownIP(configured, host string) netip.Addr {
	for _, text := range []string{configured, host} {
		if ip, err := netip.ParseAddr(text); err == nil && !ip.IsUnspecified() {
			return ip.Unmap().WithZone("")
		}
	}
	addrs, _ := net.InterfaceAddrs() // none if they cannot be read
	return firstOf(addrs)
}

// firstOf returns the first address that is neither loopback nor link-local, IPv4 before IPv6, else
// 127.0.0.1.
func firstOf(addrs []net.Addr) netip.Addr {
	best := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch ip := prefix.Addr().Unmap(); {
		case ip.IsLoopback() || ip.IsLinkLocalUnicast():
		case ip.Is4():
			return ip
		case best.IsLoopback():
			best = ip
		}
	}
	return best
}
