package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// network is the bridge that a lab's pods are on.
type network struct {
	Bridge string // also the CNI network's name
	Subnet string // a /22: about a thousand pods
}

// chooseNetwork takes the network of the lab's last start, or a free one: a first guess from the
// lab's id, so that it stays the same if it can, then onwards until one clashes with no address
// of the host.
func (l *Lab) chooseNetwork() (network, error) {
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
	taken, err := hostNetworks()
	if err != nil {
		return network{}, err
	}
	guess, err := strconv.ParseUint(l.id, 16, 32)
	if err != nil {
		return network{}, err
	}
	const slots = 64 * 64 // 10.128.0.0/10 in pieces of /22
	for i := range uint64(slots) {
		slot := (guess + i) % slots
		_, subnet, err := net.ParseCIDR(fmt.Sprintf("10.%d.%d.0/22", 128+slot/64, slot%64*4))
		if err != nil {
			return network{}, err
		}
		if clashes(subnet, taken) {
			continue
		}
		n := network{Bridge: "lab" + l.id, Subnet: subnet.String()}
		text, err := json.Marshal(n)
		if err != nil {
			return network{}, err
		}
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

// conflist is the network's CNI configuration: a bridge without masquerading, as pods need no
// way out, and host ports if wanted.
func (n network) conflist(dir string, hostPorts bool) []byte {
	type object = map[string]any
	plugins := []object{{
		"type": "bridge", "bridge": n.Bridge, "isGateway": true, "ipMasq": false, "hairpinMode": true,
		"ipam": object{
			"type": "host-local", "dataDir": filepath.Join(dir, "cni/leases"),
			"ranges": [][]object{{{"subnet": n.Subnet}}},
			"routes": []object{{"dst": "0.0.0.0/0"}},
		},
	}}
	if hostPorts {
		plugins = append(plugins, object{"type": "portmap", "capabilities": object{"portMappings": true}})
	}
	text, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       n.Bridge,
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
