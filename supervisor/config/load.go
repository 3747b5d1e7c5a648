package config

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
)

// Load reads and checks everything the agent is told. flags must have been
// parsed; root is the host's file system (os.DirFS("/")), workDir the absolute
// directory that relative paths of flags mean. The error is an *Error that
// lists all that is wrong. Nothing but reading happens.
func Load(flags *Flags, root fs.FS, workDir string) (Config, error) {
	l := &loader{flags: flags, root: root, workDir: workDir, origins: origins{}}
	c, problems := l.load()
	if len(problems) > 0 {
		return Config{}, &Error{Problems: problems}
	}
	return c, nil
}

type loader struct {
	flags   *Flags
	root    fs.FS
	workDir string
	origins origins
	// ignored is what the files have and a kubelet does without, mended what mend has put right.
	ignored, mended []Problem
}

func (l *loader) load() (Config, []Problem) {
	options := l.options()
	tree, problems := l.files(options)
	if problems != nil {
		return Config{}, problems
	}
	var k kubelet.KubeletConfiguration
	if mistakes := strictyaml.DecodeTree(tree, "", &k); mistakes != nil {
		// Each file was checked by itself; only their sum is left.
		return Config{}, fromMistakes("configuration files together", mistakes)
	}
	// Gates first: defaults follow them.
	l.applyGates(&k)
	setDefaults(&k)
	l.applyFlags(&k)
	k.Kind, k.APIVersion = configKind, configVersion
	k.StaticPodPath = l.absolute(k.StaticPodPath)
	c := Config{
		kubelet: k,
		options: options,
		gates:   Gates{set: maps.Clone(k.FeatureGates)},
		origins: l.origins,
	}
	l.mended = fromFieldErrors(l.origins, mend(&c.kubelet, c.gates, c.Standalone()))
	c.warnings = l.warnings(options)
	c.idle, c.byGroup = l.withoutEffect(&c.kubelet, c.gates), withoutEffectInGroups(c.gates)
	if c.providers, c.providersHash, problems = l.readProviders(options, c.gates); problems != nil {
		return Config{}, problems
	}
	if c.ahead, problems = l.readAhead(options); problems != nil {
		return Config{}, problems
	}
	if err := c.Validate(); err != nil {
		return Config{}, err.(*Error).Problems //nolint:errorlint // Validate gives nothing else
	}
	return c, nil
}

// options copies the flags without a field and makes their paths absolute.
func (l *loader) options() Options {
	o := l.flags.options
	o.NodeLabels = maps.Clone(o.NodeLabels)
	o.PullAheadImages = slices.Clone(o.PullAheadImages)
	for _, p := range []*string{
		&o.Config, &o.ConfigDir, &o.Kubeconfig, &o.BootstrapKubeconfig, &o.RootDir, &o.CertDir,
		&o.LockFile, &o.CredentialProviderConfig, &o.CredentialProviderBinDir, &o.ContainerLogLinks, &o.DevicePlugins,
		&o.PullAheadLists,
	} {
		*p = l.absolute(*p)
	}
	return o
}

func (l *loader) absolute(name string) string {
	if name == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(l.workDir, name)
}

// files reads the file of --config and the drop-ins over it.
func (l *loader) files(o Options) (map[string]any, []Problem) {
	tree := map[string]any{}
	var problems []Problem
	if o.Config != "" {
		if tree, l.ignored, problems = readTree(l.root, o.Config); problems != nil {
			return nil, problems
		}
		l.origins.record(tree, o.Config)
	}
	if o.ConfigDir == "" {
		return tree, nil
	}
	names, problems := dropins(l.root, o.ConfigDir)
	if problems != nil {
		return nil, problems
	}
	if _, given := tree["evictionHard"]; !given && len(names) > 0 {
		// A drop-in that names one signal leaves the others at their default,
		// as with the kubelet.
		usual := map[string]any{}
		for signal, threshold := range defaults().EvictionHard {
			usual[signal] = threshold
		}
		tree["evictionHard"] = usual
	}
	for _, name := range names {
		patch, ignored, found := readTree(l.root, name)
		problems = append(problems, found...)
		l.ignored = append(l.ignored, ignored...)
		if found == nil {
			merge(tree, patch)
			l.origins.record(patch, name)
		}
	}
	return tree, problems
}

// applyGates adds the feature gates of the command line to the file's: other maps replace it.
func (l *loader) applyGates(k *kubelet.KubeletConfiguration) {
	for name, on := range l.flags.over.FeatureGates { // order-free: maps
		if k.FeatureGates == nil {
			k.FeatureGates = map[string]bool{}
		}
		k.FeatureGates[name] = on
		l.origins["featureGates"+joint+name] = "--feature-gates"
	}
}

// applyFlags puts the other flags that were given over the configuration.
func (l *loader) applyFlags(k *kubelet.KubeletConfiguration) {
	given := l.flags.over.DeepCopy()
	for _, s := range settings {
		for name := range strings.FieldsSeq(s.flags) {
			if s.path != "featureGates" && l.flags.given(name) {
				s.in(k).Set(s.in(given))
				l.origins.replace(s.path, "--"+name)
			}
		}
	}
}
