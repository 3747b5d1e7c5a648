package node

import "github.com/troupe-dev/troupe/supervisor/host/shutdown/logind"

// connectInhibitor puts what delays the shutdown of this machine behind its port, if pods are to end before.
func (d *nodeDaemon) connectInhibitor() error {
	if len(d.settings.Shutdown) == 0 {
		return nil
	}
	locks := logind.New(logind.Config{})
	d.closing(locks.Close)
	d.settings.Ports.Inhibitor = locks
	return nil
}
