package config

import (
	"time"
)

// Runtime says what pods run on.
type Runtime string

// The runtimes of --runtime.
const (
	// RuntimeCRI is a container runtime behind a CRI socket.
	RuntimeCRI Runtime = "cri"
	// RuntimeSim is the simulated runtime, in process.
	RuntimeSim Runtime = "sim"
)

// Options is what only the command line says: it has no field in
// KubeletConfiguration. Paths are absolute once loaded.
type Options struct {
	// Config is the KubeletConfiguration file; empty for none. (--config)
	Config string
	// ConfigDir is the directory of drop-ins; empty for none. (--config-dir)
	ConfigDir string
	// Kubeconfig says how to reach the apiserver. Empty is standalone.
	// (--kubeconfig)
	Kubeconfig string
	// BootstrapKubeconfig is used to ask for a client certificate when
	// Kubeconfig does not exist. (--bootstrap-kubeconfig)
	BootstrapKubeconfig string
	// HostnameOverride is the node's name instead of the host's.
	// (--hostname-override)
	HostnameOverride string
	// NodeIP is one address, or one of each family with a comma between, or
	// 0.0.0.0 or :: for a preference. (--node-ip)
	NodeIP string
	// NodeLabels are put on the node when it is registered. (--node-labels)
	NodeLabels map[string]string
	// RootDir is where the agent keeps its files. (--root-dir)
	RootDir string
	// CertDir is where TLS certificates are kept. (--cert-dir)
	CertDir string
	// CloudProvider is "" or external. (--cloud-provider)
	CloudProvider string
	// CredentialProviderConfig and CredentialProviderBinDir name credential provider
	// plugins. (--image-credential-provider-config,
	// --image-credential-provider-bin-dir)
	CredentialProviderConfig, CredentialProviderBinDir string
	// LockFile is the file that agents of one machine take turns with. (--lock-file)
	LockFile string
	// ExitOnLockContention ends the agent when another process opens LockFile. (--exit-on-lock-contention)
	ExitOnLockContention bool
	// MinimumContainerTTL is how old a dead container is at least before it
	// is removed. (--minimum-container-ttl-duration)
	MinimumContainerTTL time.Duration
	// MaxDeadPerContainer is how many dead instances are kept of each
	// container. (--maximum-dead-containers-per-container)
	MaxDeadPerContainer int32
	// MaxDead is how many dead containers are kept in all; negative for no
	// limit. (--maximum-dead-containers)
	MaxDead int32
	// ContainerLogLinks is the directory of symlinks to the logs of containers, for
	// log collectors; empty for none. (--container-log-links-dir, ours)
	ContainerLogLinks string
	// DevicePlugins is the directory of the sockets of device plugins, and of their checkpoint. Empty: the kubelet's,
	// DefaultDevicePlugins, or one below the root directory if another agent serves that. (--device-plugins-dir, ours)
	DevicePlugins string
	// RuntimeCgroups is the cgroup that the container runtime runs in, whose usage /stats/summary then tells; empty
	// if it is not known. (--runtime-cgroups)
	RuntimeCgroups string
	// PullAheadImages are images that are pulled before a pod wants them. (--pull-ahead-images, ours)
	PullAheadImages []string
	// PullAheadLists is a file with such images, or a directory of such files; empty for none. (--pull-ahead-lists, ours)
	PullAheadLists string
	// ExecByGet: streams into containers may be asked for with the verb get of nodes/proxy. (--exec-by-get, ours)
	ExecByGet bool
	// Runtime is what pods run on. (--runtime, ours)
	Runtime Runtime
}

// Defaults of flags that have no field in KubeletConfiguration.
const (
	// DefaultRootDir is where the kubelet keeps its files, too: a drop-in.
	DefaultRootDir = "/var/lib/kubelet"
	// DefaultCertDir is the kubelet's, too. It does not follow --root-dir.
	DefaultCertDir = "/var/lib/kubelet/pki"
	// DefaultContainerLogLinks is where log collectors look for a kubelet's.
	DefaultContainerLogLinks = "/var/log/containers"
	// DefaultDevicePlugins is where device plugins look for a kubelet, whatever its root directory is.
	DefaultDevicePlugins = "/var/lib/kubelet/device-plugins"
)

func defaultOptions() Options {
	return Options{
		RootDir:             DefaultRootDir,
		CertDir:             DefaultCertDir,
		NodeLabels:          map[string]string{},
		MaxDeadPerContainer: 1,
		MaxDead:             -1,
		ContainerLogLinks:   DefaultContainerLogLinks,
		Runtime:             RuntimeCRI,
	}
}

// ExternalCloud: the controller of a cloud says what the node is (--cloud-provider).
func (c Config) ExternalCloud() bool { return c.options.CloudProvider == "external" }
