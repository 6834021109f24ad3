package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The addresses are private to the run, because its network is isolated.
const (
	bridge  = "chaos0"
	subnet  = "10.77.0."
	gateway = subnet + "1" // the generator and the links to MongoDB
)

// host is a network namespace on the bridge.
type host struct{ name, addr string }

// run runs a command to its end.
func run(program string, args ...string) error {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// ip runs ip with words.
func ip(format string, args ...any) error {
	return run("ip", strings.Fields(fmt.Sprintf(format, args...))...)
}

// inOrder runs steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// buildBridge creates the bridge of the network, with the load generator on it.
func buildBridge() error {
	return inOrder(
		func() error { return ip("link set lo up") },
		func() error { return ip("link add %s type bridge", bridge) },
		func() error { return ip("addr add %s/24 dev %s", gateway, bridge) },
		func() error { return ip("link set %s up", bridge) },
		hurry,
	)
}

// hurry lets the generator give up a connection to a silent host after 3 s. Toxiproxy has no limit
// of its own, and cannot be stopped meanwhile.
func hurry() error {
	return os.WriteFile("/proc/sys/net/ipv4/tcp_syn_retries", []byte("1"), 0)
}

// addHost creates a namespace with one interface on the bridge.
func addHost(name string, number int) (*host, error) {
	h := &host{name: name, addr: fmt.Sprintf("%s%d", subnet, number)}
	return h, inOrder(
		func() error { return ip("netns add %s", name) },
		func() error { return ip("link add veth-%s type veth peer name eth0 netns %s", name, name) },
		func() error { return ip("link set veth-%s master %s up", name, bridge) },
		func() error { return ip("-n %s addr add %s/24 dev eth0", name, h.addr) },
		func() error { return ip("-n %s link set eth0 up", name) },
		func() error { return ip("-n %s link set lo up", name) },
	)
}

// command returns a command that runs on the host. ip executes the program in its place, so that
// signals reach it.
func (h *host) command(program string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.name, program}, args...)...)
}

// rule is a rule of a host's packet filter: "INPUT -s 10.77.0.21 -j DROP".
type rule struct {
	host *host
	spec string
}

func (r rule) add() error    { return r.iptables("-I") }
func (r rule) remove() error { return r.iptables("-D") }

func (r rule) iptables(action string) error {
	args := append([]string{"netns", "exec", r.host.name, "iptables", "-w", action}, strings.Fields(r.spec)...)
	return run("ip", args...)
}

// incoming drops packets from one host at another.
func incoming(to, from *host) rule { return rule{to, "INPUT -s " + from.addr + " -j DROP"} }

// unreachable makes a host's own attempts to reach another fail at once.
func unreachable(from, to *host) rule {
	return rule{from, "OUTPUT -p tcp -d " + to.addr + " -j REJECT --reject-with tcp-reset"}
}

// link blocks the traffic between a host and a port of the load generator.
func linkRules(h *host, port int) []rule {
	return []rule{
		{h, fmt.Sprintf("INPUT -p tcp -s %s --sport %d -j DROP", gateway, port)},
		{h, fmt.Sprintf("OUTPUT -p tcp -d %s --dport %d -j DROP", gateway, port)},
	}
}
