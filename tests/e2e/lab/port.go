package lab

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Ports that are given out. They are below those that the kernel gives to whoever connects
// (ip_local_port_range, from 32768): one of these might be taken by a client while what listens at it is
// killed and started again.
const firstPort, ports = 12000, 18000

// given counts the ports that this process gave out. Processes begin at different ones.
var given atomic.Uint32

// FreePort finds a port that nothing listens on just now, and that it has not given before.
func FreePort() (port int, err error) {
	for range ports {
		const apart = 101 // a test wants a few dozen
		port = firstPort + (os.Getpid()*apart+int(given.Add(1)))%ports
		var listener net.Listener
		if listener, err = net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// freePorts finds several.
func freePorts(ports ...*int) (err error) {
	for _, p := range ports {
		if *p, err = FreePort(); err != nil {
			return err
		}
	}
	return nil
}
