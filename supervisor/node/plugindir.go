package node

import (
	"net"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/supervisor/config"
)

// pluginDir is the directory of device plugins of an agent with these options: the kubelet's, where plugins look for
// it. An agent beside another one, and one without a real runtime, have their own: each agent removes the sockets that
// it finds there, and forgets the devices of pods that it does not know.
func pluginDir(o config.Options, kubelets string, log zerolog.Logger) string {
	own := filepath.Join(o.RootDir, filepath.Base(kubelets))
	switch {
	case o.DevicePlugins != "":
		return o.DevicePlugins
	case own == kubelets:
		return own
	case o.Runtime == config.RuntimeSim:
		return own
	}
	conn, err := net.DialTimeout("unix", filepath.Join(kubelets, "kubelet.sock"), time.Second)
	if err != nil {
		return kubelets
	}
	conn.Close() //nolint:errcheck // nothing was said
	log.Warn().Str("directory", own).Msg("another agent serves device plugins in " + kubelets +
		": plugins of this one have to register in its own directory; --device-plugins-dir sets another one")
	return own
}
