package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// network is the bridge that a lab's pods are on.
type network struct {
	Bridge string // also the CNI network's name
	Subnet string // of IPv4, a /22: about a thousand pods
}

// chooseNetwork takes the network of the lab's last start, or a free one: a first guess from the
// lab's id, so that it stays the same if it can, then onwards until one clashes with no address
// of the host.
func (l *Lab) chooseNetwork() (_ network, err error) {
	defer check.Return(&err)
	file := filepath.Join(l.dir, "network.json")
	text, err := os.ReadFile(file)
	if err == nil {
		var n network
		if err := json.Unmarshal(text, &n); err == nil && n.Subnet != "" {
			return n, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return network{}, err
	}
	taken := check.Must(hostNetworks())
	guess := check.Must(strconv.ParseUint(l.id, 16, 32))
	const slots = 64 * 64 // 10.128.0.0/10 in pieces of /22
	for i := range uint64(slots) {
		slot := (guess + i) % slots
		_, subnet := check.Must2(net.ParseCIDR(fmt.Sprintf("10.%d.%d.0/22", 128+slot/64, slot%64*4)))
		if clashes(subnet, taken) {
			continue
		}
		n := network{Bridge: "lab" + l.id, Subnet: subnet.String()}
		text := check.Must(json.Marshal(n))
		return n, os.WriteFile(file, text, 0o644)
	}
	return network{}, errors.New("no free subnet for pods in 10.128.0.0/10")
}

func hostNetworks() ([]*net.IPNet, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var nets []*net.IPNet
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			nets = append(nets, n)
		}
	}
	return nets, nil
}

func clashes(subnet *net.IPNet, taken []*net.IPNet) bool {
	for _, n := range taken {
		if n.Contains(subnet.IP) || subnet.Contains(n.IP) {
			return true
		}
	}
	return false
}

// subnets are those of the pods' addresses.
func (l *Lab) subnets() (out []*net.IPNet) {
	families := l.config.Families
	if len(families) == 0 {
		families = []v1.IPFamily{v1.IPv4Protocol}
	}
	for _, f := range families {
		text := l.network.Subnet
		if f == v1.IPv6Protocol { // of the addresses that anybody may use (RFC 4193), one for each lab
			text = fmt.Sprintf("fd74:%s:%s::/64", l.id[:4], l.id[4:])
		}
		_, subnet, err := net.ParseCIDR(text)
		if err != nil {
			panic(err) // it is ours
		}
		out = append(out, subnet)
	}
	return out
}

// gateway is the first address of a subnet: the bridge's.
func gateway(subnet *net.IPNet) *net.IPNet {
	ip := slices.Clone(subnet.IP)
	ip[len(ip)-1]++
	return &net.IPNet{IP: ip, Mask: subnet.Mask}
}

// NodeAddresses are the bridge's, one for each of Families: as good as those of a node. They are known once the lab has
// been started.
func (l *Lab) NodeAddresses() (out []string) {
	for _, s := range l.subnets() {
		out = append(out, gateway(s).IP.String())
	}
	return out
}

// makeBridge makes the bridge of a lab with Families before there are pods. The network plugin would turn on forwarding
// of IPv6 for the whole machine, which then does not listen to its routers any more.
func (l *Lab) makeBridge(ctx context.Context) error {
	name := l.network.Bridge
	if _, err := os.Stat("/sys/class/net/" + name); err == nil || len(l.config.Families) == 0 {
		return nil
	}
	// With an address of its own the bridge does not take that of a pod's end, which pods would take note of.
	mac := net.HardwareAddr{2, 't', l.id[0], l.id[1], l.id[2], l.id[3]}
	steps := [][]string{{"link", "add", name, "address", mac.String(), "type", "bridge"}}
	for _, s := range l.subnets() {
		step := []string{"address", "add", gateway(s).String(), "dev", name}
		if s.IP.To4() == nil {
			step = append(step, "nodad")
		}
		steps = append(steps, step)
	}
	for i, step := range append(steps, []string{"link", "set", name, "up"}) {
		if _, err := output(ctx, "", nil, "ip", step...); err != nil {
			return fmt.Errorf("make the bridge: %w", err)
		}
		if i == 0 { // IPv6 is off by default in some containers
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("0"), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// conflist is the network's CNI configuration: a bridge without masquerading, as pods need no
// way out, and host ports if wanted.
func (l *Lab) conflist() []byte {
	type object = map[string]any
	var ranges [][]object
	var routes []object
	for _, s := range l.subnets() {
		ranges = append(ranges, []object{{"subnet": s.String(), "gateway": gateway(s).IP.String()}})
		all := "0.0.0.0/0"
		if s.IP.To4() == nil {
			all = "::/0"
		}
		routes = append(routes, object{"dst": all})
	}
	plugins := []object{{
		"type": "bridge", "bridge": l.network.Bridge, "isGateway": len(l.config.Families) == 0, "ipMasq": false, "hairpinMode": true,
		"ipam": object{
			"type": "host-local", "dataDir": filepath.Join(l.dir, "cni/leases"), "ranges": ranges, "routes": routes,
		},
	}}
	if l.config.NodeNetwork {
		plugins = append(plugins, object{"type": "portmap", "capabilities": object{"portMappings": true}})
	}
	text, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       l.network.Bridge,
		"plugins":    plugins,
	}, "", "  ")
	if err != nil {
		panic(err) // only maps, slices, strings and booleans
	}
	return text
}

// CNIBinDir is where the CNI plugins are: Debian's directory or the usual one.
func CNIBinDir() (string, error) {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("find CNI plugins: none in /usr/lib/cni or /opt/cni/bin (Debian package: containernetworking-plugins)")
}
