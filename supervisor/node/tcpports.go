package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/inuse"
)

// tcpPort is a port of the configuration that the agent does not start without.
type tcpPort struct {
	field   string
	address netip.AddrPort
}

func (p tcpPort) String() string { return p.field + " " + strconv.Itoa(int(p.address.Port())) }

// otherwise is what to do if a process that has it can't be stopped.
func (p tcpPort) otherwise() string { return "choose another " + p.field }

// tcpPorts are all of them.
func tcpPorts(c config.Config) (ports []tcpPort) {
	if address, on := secured(c); on {
		ports = append(ports, tcpPort{"port", address})
	}
	if p := c.Kubelet().ReadOnlyPort; p > 0 {
		if ip, err := netip.ParseAddr(c.Kubelet().Address); err == nil { // validated
			ports = append(ports, tcpPort{"readOnlyPort", netip.AddrPortFrom(ip, uint16(p))})
		}
	}
	return ports
}

// secured is where the HTTPS server listens, if there is one: a node without an apiserver has none that would have to
// ask it about clients.
func secured(c config.Config) (netip.AddrPort, bool) {
	address, on := c.Server()
	return address, on && (!c.Standalone() || !accessOf(c).Asks())
}

// tryToListen finds that a port can't be had before cgroups and mounts are changed, which a kubelet that has the port
// has too. The servers listen later, when they can answer.
func (d *nodeDaemon) tryToListen(context.Context) error {
	for _, p := range tcpPorts(d.Config) {
		listener, err := net.Listen("tcp", p.address.String())
		switch {
		case err == nil:
			err = listener.Close()
		case errors.Is(err, unix.EADDRINUSE):
			by, _ := inuse.Port("/proc", p.address)
			err = inUse(p.String(), by, p.otherwise())
		default:
			err = fmt.Errorf("%s: %w: choose another address or port", p, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inUse is the error of what another process holds.
func inUse(what string, by inuse.Process, otherwise string) error {
	return fmt.Errorf("%s is in use by %s: stop that, or %s", what, by, otherwise)
}
