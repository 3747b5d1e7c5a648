package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// maxIgnored is how many ignored parts of the configuration are warned of one by one.
const maxIgnored = 20

// Warnings are what the operator should know of a configuration that is good,
// one line each.
func (c Config) Warnings() []string {
	out := c.OtherWarnings()
	if len(c.idle) > 0 {
		out = append(out, "settings that have no effect: "+strings.Join(c.idle, ", "))
	}
	return append(out, c.byGroup...)
}

// OtherWarnings are all but those of settings that have no effect.
func (c Config) OtherWarnings() []string { return slices.Clone(c.warnings) }

// WithoutEffect names the settings that have none.
func (c Config) WithoutEffect() []string { return slices.Concat(c.idle, c.byGroup) }

// warnings are what the operator should know of a configuration that is good.
func (l *loader) warnings(o Options) (out []string) {
	for i, p := range l.ignored {
		if i == maxIgnored {
			out = append(out, fmt.Sprintf("%d more parts of the configuration are ignored", len(l.ignored)-i))
			break
		}
		out = append(out, "a part of the configuration is ignored, as by a kubelet: "+p.String())
	}
	mended := make([]string, len(l.mended))
	for i, p := range l.mended {
		mended[i] = p.String()
	}
	slices.Sort(mended)
	out = append(out, mended...)
	_, ignored, _ := parseNodeIPs(o.NodeIP) // an error is one of validateOptions
	for _, text := range ignored {
		out = append(out, Problem{Origin: "--node-ip", Value: text, Message: "is no IP address: it is ignored"}.String())
	}
	return out
}

// withoutEffect names the settings that were given and have no effect, sorted. One with its default changes nothing:
// installers that write the Go type write all its fields.
func (l *loader) withoutEffect(k *kubelet.KubeletConfiguration, gates Gates) (names []string) {
	for _, name := range l.flags.ignored {
		if f := l.flags.fs.Lookup(name); l.flags.given(name) && f.Value.String() != f.DefValue {
			names = append(names, "--"+name)
		}
	}
	needs, is, usual := needs(k, gates), tree(k), tree(new(Default().kubelet))
	for key := range l.origins { // order-free: sorted below
		path, name := withoutEffect(key, gates, needs)
		if name != "" && !reflect.DeepEqual(part(is, path), part(usual, path)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tree is a configuration as a file has it.
func tree(k *kubelet.KubeletConfiguration) (out map[string]any) {
	data, err := json.Marshal(k)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic("config: a KubeletConfiguration is no JSON: " + err.Error())
	}
	return out
}

// part is a part of a tree, nil if it is not there.
func part(tree map[string]any, path []string) any {
	var at any = tree
	for _, name := range path {
		m, _ := at.(map[string]any)
		at = m[name]
	}
	return at
}
