package chaos

import (
	"fmt"
	"os/exec"
	"strings"
)

// The addresses are private to the run: its network is connected to nothing else.
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

// buildBridge makes the network's bridge, with the generator at it.
func buildBridge() error {
	return inOrder(
		func() error { return ip("link set lo up") },
		func() error { return ip("link add %s type bridge", bridge) },
		func() error { return ip("addr add %s/24 dev %s", gateway, bridge) },
		func() error { return ip("link set %s up", bridge) },
	)
}

// addHost makes a namespace with one interface at the bridge.
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

// command prepares a program that runs on the host; ip becomes the program, so that signals reach
// it.
func (h *host) command(program string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.name, program}, args...)...)
}

// rule is what a host's packet filter refuses: "INPUT -s 10.77.0.21 -j DROP".
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

// incoming drops what one host sends to another, where it arrives.
func incoming(to, from *host) rule { return rule{to, "INPUT -s " + from.addr + " -j DROP"} }

// refusal makes a host's own attempts to reach another fail at once.
func refusal(from, to *host) rule {
	return rule{from, "OUTPUT -p tcp -d " + to.addr + " -j REJECT --reject-with tcp-reset"}
}

// link closes off the traffic between a host and an address of the generator's side, by its port.
func linkRules(h *host, port int) []rule {
	return []rule{
		{h, fmt.Sprintf("INPUT -p tcp -s %s --sport %d -j DROP", gateway, port)},
		{h, fmt.Sprintf("OUTPUT -p tcp -d %s --dport %d -j DROP", gateway, port)},
	}
}
