package config

import (
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// Flags holds the command line of troupe node, which has the kubelet's flag
// names: those that have no field in KubeletConfiguration (Options), those
// that override one, and those that are accepted and do nothing.
type Flags struct {
	options Options
	// over has what the flags over fields say.
	over    kubelet.KubeletConfiguration
	ignored []string
	fs      *pflag.FlagSet
}

// NewFlags gives flags with their defaults.
func NewFlags() *Flags { return &Flags{options: defaultOptions()} }

// AddTo defines the flags on a set that is not parsed yet. A name may be
// written with underscores, as with the kubelet.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	f.fs = fs
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	f.addOptions(fs)
	for _, s := range settings {
		for name := range strings.FieldsSeq(s.flags) {
			s.define(fs, name, &f.over)
		}
	}
	f.addIgnored(fs)
}

func (f *Flags) addOptions(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringVar(&o.Config, "config", o.Config, "KubeletConfiguration file")
	fs.StringVar(&o.ConfigDir, "config-dir", o.ConfigDir,
		"directory of *.conf files that override parts of --config, in the order of their names")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"kubeconfig of the apiserver; without it the node runs static pods only")
	fs.StringVar(&o.BootstrapKubeconfig, "bootstrap-kubeconfig", o.BootstrapKubeconfig,
		"kubeconfig used to request a client certificate if the file of --kubeconfig does not exist")
	fs.StringVar(&o.HostnameOverride, "hostname-override", o.HostnameOverride, "node name; default: the host name")
	fs.StringVar(&o.NodeIP, "node-ip", o.NodeIP, "node address, or one IPv4 and one IPv6 address separated by a comma")
	labels := cliflag.ConfigurationMap{}
	o.NodeLabels = labels
	fs.Var(&labels, "node-labels",
		"labels to register the node with: key=value,…; a key alone has an empty value")
	fs.StringVar(&o.RootDir, "root-dir", o.RootDir, "directory for the agent's files")
	fs.StringVar(&o.CertDir, "cert-dir", o.CertDir, "directory for TLS certificates")
	fs.StringVar(&o.CloudProvider, "cloud-provider", o.CloudProvider, "empty, or external")
	fs.StringVar(&o.CredentialProviderConfig, "image-credential-provider-config", o.CredentialProviderConfig,
		"configuration file of credential provider plugins, or directory of such files")
	fs.StringVar(&o.CredentialProviderBinDir, "image-credential-provider-bin-dir", o.CredentialProviderBinDir,
		"directory of the programs of credential provider plugins")
	fs.StringVar(&o.LockFile, "lock-file", o.LockFile,
		"lock file: wait until no other agent on this machine holds it")
	fs.BoolVar(&o.ExitOnLockContention, "exit-on-lock-contention", o.ExitOnLockContention,
		"exit when another process opens --lock-file")
	fs.DurationVar(&o.MinimumContainerTTL, "minimum-container-ttl-duration", o.MinimumContainerTTL,
		"minimum age of a dead container before it is removed")
	fs.Int32Var(&o.MaxDeadPerContainer, "maximum-dead-containers-per-container", o.MaxDeadPerContainer,
		"number of dead instances to keep per container")
	fs.Int32Var(&o.MaxDead, "maximum-dead-containers", o.MaxDead,
		"number of dead containers to keep on the node; negative for no limit")
	fs.StringVar(&o.ContainerLogLinks, "container-log-links-dir", o.ContainerLogLinks,
		"directory of symlinks to container logs, for log collectors; empty for none")
	fs.StringVar(&o.DevicePlugins, "device-plugins-dir", o.DevicePlugins,
		"directory of the sockets of device plugins and of their checkpoint; default: "+DefaultDevicePlugins+
			", or one in --root-dir if another agent serves that")
	fs.StringVar(&o.RuntimeCgroups, "runtime-cgroups", o.RuntimeCgroups,
		"cgroup that the container runtime runs in, for its resource usage in /stats/summary")
	fs.StringSliceVar(&o.PullAheadImages, "pull-ahead-images", o.PullAheadImages,
		"images to pre-pull, while no pod waits for an image: image,…")
	fs.StringVar(&o.PullAheadLists, "pull-ahead-lists", o.PullAheadLists,
		"file with images to pre-pull, one on each line, or directory of such files (*.list)")
	fs.BoolVar(&o.ExecByGet, "exec-by-get", o.ExecByGet,
		"allow exec, attach and port-forward with the verb get on nodes/proxy, as a kubelet does; default: create")
	fs.StringVar((*string)(&o.Runtime), "runtime", string(o.Runtime), "container runtime: cri, or sim (simulated)")
}

// ignoredFlags are flags of a kubelet v1.36 that this agent accepts so that a
// unit file needs no other change, and does not act on.
var ignoredFlags = []struct {
	name string
	kind string // what the flag's value is: string, bool, int or duration
}{
	{"experimental-allocatable-ignore-eviction", "bool"},
	{"experimental-mounter-path", "string"},
	{"pod-infra-container-image", "string"}, // gone from v1.35; kubeadm wrote it into unit files

	// These came into the kubelet with a library.
	{"application-metrics-count-limit", "int"},
	{"boot-id-file", "string"},
	{"container-hints", "string"},
	{"containerd", "string"},
	{"containerd-namespace", "string"},
	{"enable-load-reader", "bool"},
	{"event-storage-age-limit", "string"},
	{"event-storage-event-limit", "string"},
	{"global-housekeeping-interval", "duration"},
	{"housekeeping-interval", "duration"},
	{"log-cadvisor-usage", "bool"},
	{"machine-id-file", "string"},
	{"storage-driver-buffer-duration", "duration"},
	{"storage-driver-db", "string"},
	{"storage-driver-host", "string"},
	{"storage-driver-password", "string"},
	{"storage-driver-secure", "bool"},
	{"storage-driver-table", "string"},
	{"storage-driver-user", "string"},
}

func (f *Flags) addIgnored(fs *pflag.FlagSet) {
	const usage = "accepted for compatibility, has no effect"
	for _, flag := range ignoredFlags {
		switch flag.kind {
		case "bool":
			fs.Bool(flag.name, false, usage)
		case "int":
			fs.Int(flag.name, 0, usage)
		case "duration":
			fs.Duration(flag.name, 0, usage)
		default:
			fs.String(flag.name, "", usage)
		}
		f.ignored = append(f.ignored, flag.name)
	}
}

// given tells whether a flag was on the command line.
func (f *Flags) given(name string) bool { return f.fs != nil && f.fs.Changed(name) }
