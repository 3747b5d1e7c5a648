package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
)

// TestOwnVolumes: what is the node's, or another machine's, is not relabelled.
func TestOwnVolumes(t *testing.T) {
	bound := func(name string, source v1.PersistentVolumeSource) []podobjects.Entry {
		return []podobjects.Entry{
			{
				Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: name}, State: podobjects.Found,
				Object: &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{VolumeName: name}},
			},
			{
				Ref: podobjects.Ref{Kind: podobjects.Volume, Name: name}, State: podobjects.Found,
				Object: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}},
			},
		}
	}
	entries := append(bound("disk", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}), bound("server", v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}})...)
	p := &pod{want: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}, objects: podobjects.NewSet(entries)}
	claim := func(name string, readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
	}
	for name, c := range map[string]struct {
		source v1.VolumeSource
		want   bool
	}{
		"emptyDir":                {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, true},
		"secret":                  {v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}, true},
		"projected":               {v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}, true},
		"hostPath":                {v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}, false},
		"nfs":                     {v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}, false},
		"image":                   {v1.VolumeSource{Image: &v1.ImageVolumeSource{}}, false},
		"claim to a disk":         {claim("disk", false), true},
		"claim to a disk, read":   {claim("disk", true), false},
		"claim to a server":       {claim("server", false), false},
		"claim that is not known": {claim("none", false), false},
	} {
		if got := p.owns(&v1.Volume{Name: "v", VolumeSource: c.source}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTarget: an ephemeral container sees the processes of the container that it
// names, as it runs now.
func TestTarget(t *testing.T) {
	debug := func(target string) v1.EphemeralContainer {
		return v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}, TargetContainerName: target}
	}
	p := &pod{want: &v1.Pod{}}
	p.facts.View.Containers = []observed.Container{{ID: "2", Name: "app", Attempt: 1}, {ID: "1", Name: "app"}}
	p.facts.View.Sort()
	target := func(name string) (string, error) {
		return createContainer{podplan.CreateContainer{Name: name}}.target(p)
	}
	for of, want := range map[string]string{"": "", "app": "2"} {
		p.want.Spec.EphemeralContainers = []v1.EphemeralContainer{debug(of)}
		if got, err := target("debug"); got != want || err != nil {
			t.Errorf("%q: %q, %v", of, got, err)
		}
	}
	p.want.Spec.EphemeralContainers = []v1.EphemeralContainer{debug("none")}
	if _, err := target("debug"); err == nil {
		t.Error("a target that is not there was found")
	}
	if got, err := target("app"); got != "" || err != nil {
		t.Errorf("of another container: %q, %v", got, err)
	}
}
