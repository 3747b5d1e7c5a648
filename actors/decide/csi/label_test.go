package csi

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const red, blue = "u:r:t:s0:c1,c2", "u:r:t:s0:c3"

func labeled(pod, label string) *Spec {
	s := specOf(pod)
	s.Label, s.Access = label, v1.ReadWriteMany // for which nothing but the label is in the way
	return s
}

func labels() Env {
	e := ready()
	e.Driver.SELinux = true
	return e
}

// TestLabels: a pod with another label waits for the one that has the volume. Then the volume is staged anew.
func TestLabels(t *testing.T) {
	v, a, b := NewVolume(key, false), labeled("a", red), labeled("b", blue)
	v.Use(a.Target, a)
	v.Use(b.Target, b)
	if got := do(t, v, labels(), works); got != "GetVolumeAttachment NodeStageVolume NodePublishVolume:a" || v.As.Label != red {
		t.Error(got, v.As)
	}
	if p := v.Publishing(a.Target, labels().Driver, "n"); p.Label != red {
		t.Error(p)
	}
	if got := v.Waits(b.Target, labels()); !strings.HasPrefix(got, `conflicting SELinux labels of volume pv: "u:r:t:s0:c1,c2" and "u:r:t:s0:c3"`) {
		t.Error(got)
	}
	v.Release(a.Target)
	if got := do(t, v, labels(), works); got != "NodeUnpublishVolume:a NodeUnstageVolume GetVolumeAttachment NodeStageVolume NodePublishVolume:b" || v.As.Label != blue {
		t.Error(got, v.As)
	}
	// A pod that has the same label, written otherwise, is no conflict.
	c := labeled("c", "u:r:t:s0:c3,c3")
	v.Use(c.Target, c)
	v.Release(b.Target)
	if got := do(t, v, labels(), works); got != "NodeUnpublishVolume:b NodePublishVolume:c" {
		t.Error(got)
	}
}

// TestLabelsFound: after a restart the label is that of the notes. The pod that has the volume goes on, also if another
// asks first, or if the driver or the pod would have another label by now.
func TestLabelsFound(t *testing.T) {
	for name, c := range map[string]struct {
		found, wants string
		driver       bool
	}{
		"as it was": {red, red, true}, "the driver can no more": {red, red, false}, "the driver can by now": {"", red, true},
		"the gate is off": {red, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			env := labels()
			env.Driver.SELinux = c.driver
			v, a, b := NewVolume(key, false), labeled("a", c.wants), labeled("b", blue)
			v.FoundStaged(Found{Key: key, Label: c.found})
			v.FoundPublished(Found{Key: key, Target: a.Target, Label: c.found})
			v.Use(b.Target, b)
			if c.driver {
				if got := do(t, v, env, works); got != "" {
					t.Error(got)
				}
			}
			v.Use(a.Target, a)
			if got := do(t, v, env, works); !strings.HasSuffix(got, "NodeStageVolume NodePublishVolume:a") && c.driver || v.As.Label != c.found {
				t.Error(got, v.As)
			}
			if p := v.Publishing(a.Target, env.Driver, "n"); p.Label != c.found {
				t.Error(p)
			}
		})
	}
}

// TestLabelLeft: what is staged with another label, and published for nobody, is unstaged first.
func TestLabelLeft(t *testing.T) {
	v, b := NewVolume(key, false), labeled("b", blue)
	v.FoundStaged(Found{Key: key, Label: red})
	v.Use(b.Target, b)
	if got := do(t, v, labels(), works); got != "GetVolumeAttachment NodeUnstageVolume GetVolumeAttachment NodeStageVolume NodePublishVolume:b" || v.As.Label != blue {
		t.Error(got)
	}
}

// TestDriverWithoutLabels: a driver that does not say that it can gets no label, and nobody waits.
func TestDriverWithoutLabels(t *testing.T) {
	v, a, b := NewVolume(key, false), labeled("a", red), labeled("b", blue)
	v.Use(a.Target, a)
	v.Use(b.Target, b)
	if got := do(t, v, ready(), works); got != "GetVolumeAttachment NodeStageVolume NodePublishVolume:a NodePublishVolume:b" || v.As.Label != "" {
		t.Error(got, v.As)
	}
}
