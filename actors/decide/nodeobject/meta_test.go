package nodeobject

import (
	"maps"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// absent stands for a label or annotation that is not there.
const absent = "(none)"

// metadata is a node's labels and annotations in one map.
func metadata(n *v1.Node) map[string]string {
	out := maps.Clone(n.Labels)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, n.Annotations)
	out["provider"] = n.Spec.ProviderID
	return out
}

// change sets "key=value", or removes "-key", in the map that it belongs to.
func change(labels, annotations map[string]string, texts string) {
	for text := range strings.FieldsSeq(texts) {
		key, value, sets := strings.Cut(strings.TrimPrefix(text, "-"), "=")
		in := labels
		if key == AttachesVolumes || key == ProvidedIP || key == "note" {
			in = annotations
		}
		if in[key] = value; !sets {
			delete(in, key)
		}
	}
}

// TestMeta: what an agent sets on a node that is there, when it starts and later.
func TestMeta(t *testing.T) {
	const zone, host, system = v1.LabelTopologyZone, v1.LabelHostname, v1.LabelOSStable
	const given, ip = ProvidedIP + "=192.0.2.1", "192.0.2.1"
	for name, c := range map[string]struct{ own, have, key, starts, later string }{
		"as it was registered":           {key: "pool", starts: "blue", later: "blue"},
		"an operator changes a label":    {have: "pool=green", key: "pool", starts: "green", later: "green"},
		"an operator removes it":         {have: "-pool", key: "pool", starts: absent, later: absent},
		"a label of others":              {have: zone + "=a", key: zone, starts: "a", later: "a"},
		"another zone":                   {own: zone + "=b", have: zone + "=a", key: zone, starts: "b", later: "a"},
		"no zone yet":                    {own: zone + "=b", key: zone, starts: "b", later: absent},
		"a zone to be removed":           {own: zone + "=", have: zone + "=a", key: zone, starts: absent, later: "a"},
		"another host name":              {have: host + "=x", key: host, starts: "n1", later: "x"},
		"another system":                 {have: system + "=x", key: system, starts: "linux", later: "linux"},
		"no system":                      {have: "-" + system, key: system, starts: "linux", later: "linux"},
		"a controller attaches volumes":  {have: "-" + AttachesVolumes, key: AttachesVolumes, starts: "true", later: absent},
		"no controller any more":         {own: "-" + AttachesVolumes, key: AttachesVolumes, starts: absent, later: "true"},
		"an address for the cloud":       {own: given, key: ProvidedIP, starts: ip, later: ip},
		"another address":                {own: given, have: ProvidedIP + "=::", key: ProvidedIP, starts: ip, later: ip},
		"no cloud any more":              {have: given, key: ProvidedIP, starts: absent, later: absent},
		"an annotation of others":        {have: "note=x", key: "note", starts: "x", later: "x"},
		"a node that somebody else made": {have: "provider", key: "provider", starts: "cloud://n1", later: "cloud://n1"},
		"another provider":               {have: "provider=other", key: "provider", starts: "other", later: "other"},
		"nothing":                        {have: "-", key: system, starts: "linux", later: "linux"},
	} {
		t.Run(name, func(t *testing.T) {
			o := own()
			n := New(o, facts(), t0)
			change(o.Labels, o.Annotations, c.own)
			switch text, isProvider := strings.CutPrefix(c.have, "provider"); {
			case c.have == "-":
				n.Labels, n.Annotations = nil, nil
			case isProvider:
				n.Spec.ProviderID = strings.TrimPrefix(text, "=")
			default:
				change(n.Labels, n.Annotations, c.have)
			}
			for starts, want := range map[bool]string{true: c.starts, false: c.later} {
				before := n.DeepCopy()
				got, differs := Meta(o, n, starts)
				is, has := metadata(got)[c.key]
				if !has {
					is = absent
				}
				if is != want || differs == apiequality.Semantic.DeepEqual(before, got) {
					t.Errorf("starts %v: %q, want %q, differs is %v", starts, is, want, differs)
				}
				if !apiequality.Semantic.DeepEqual(before, n) {
					t.Error("the node was changed")
				}
				if again, differs := Meta(o, got, starts); differs || again != got {
					t.Errorf("starts %v: it never ends", starts)
				}
			}
		})
	}
}
