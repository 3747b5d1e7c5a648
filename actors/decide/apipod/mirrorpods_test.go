package apipod

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func static(name, hash string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: "s", ResourceVersion: "1",
			Labels: map[string]string{"tier": "control-plane"}, Annotations: map[string]string{"kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file"}},
		Spec:   v1.PodSpec{NodeName: "n1"},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
}

func mirror(name, hash string) *v1.Pod {
	p := NewMirror(static(name, hash), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}})
	p.UID = "m"
	return p
}

func TestDo(t *testing.T) {
	deleted, now := mirror("a", "1"), metav1.Now()
	deleted.DeletionTimestamp = &now
	outlived := MirrorPair{Static: static("a", "1"), Mirror: mirror("a", "1"), Outlived: true}
	for name, c := range map[string]struct {
		pair   MirrorPair
		all    bool
		want   MirrorVerb
		stands bool
	}{
		"no mirror yet":               {MirrorPair{Static: static("a", "1"), Mirror: nil}, false, CreateMirror, false},
		"as it should be":             {MirrorPair{Static: static("a", "1"), Mirror: mirror("a", "1")}, true, KeepMirror, true},
		"of an older manifest":        {MirrorPair{Static: static("a", "2"), Mirror: mirror("a", "1")}, true, DeleteMirror, false},
		"and while others may come":   {MirrorPair{Static: static("a", "2"), Mirror: mirror("a", "1")}, false, DeleteMirror, false},
		"a user deletes it":           {MirrorPair{Static: static("a", "1"), Mirror: deleted}, true, DeleteMirror, false},
		"has ended, and its pod runs": {outlived, true, DeleteMirror, false},
		"and others may come":         {outlived, false, DeleteMirror, false},
		"no static pod":               {MirrorPair{Static: nil, Mirror: mirror("a", "1")}, true, DeleteMirror, false},
		"no static pod, perhaps":      {MirrorPair{Static: nil, Mirror: mirror("a", "1")}, false, KeepMirror, false},
		"no static pod, deleted, may": {MirrorPair{Static: nil, Mirror: deleted}, false, KeepMirror, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.pair.Do(c.all); got != c.want || c.pair.Stands() != c.stands {
				t.Errorf("got %v, stands %v; want %v, %v", got, c.pair.Stands(), c.want, c.stands)
			}
		})
	}
}

// TestUIDOfTheManifest: log collectors find the pod's directories by the mirror's annotation, which is the UID, and an
// edit under the same UID is seen all the same.
func TestUIDOfTheManifest(t *testing.T) {
	read := func(image string) *v1.Pod {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: mine}\nspec: {containers: [{name: c, image: " + image + "}]}"
		source := manifest.Source{Origin: podspec.File, Name: "a.yaml"}
		return manifest.Decode([]byte(text), source, manifest.Node{Name: "n1"}, time.Unix(0, 0)).Pods[0]
	}
	m := NewMirror(read("i:1"), &v1.Node{})
	check.Equal(t, m.Annotations[podspec.AnnotationMirror], "mine", "the hash of the mirror")
	if !(MirrorPair{Static: read("i:1"), Mirror: m}).Stands() || (MirrorPair{Static: read("i:2"), Mirror: m}).Stands() {
		t.Error("the mirror must stand until its manifest is edited")
	}
	earlier := m.DeepCopy() // as an older agent made it
	earlier.Annotations[podspec.AnnotationMirror] = earlier.Annotations[manifest.AnnotationManifest]
	delete(earlier.Annotations, manifest.AnnotationManifest)
	check.Equal(t, MirrorPair{Static: read("i:1"), Mirror: earlier}.Do(true), DeleteMirror, "a mirror of an earlier agent")
}

func TestPairs(t *testing.T) {
	got := MirrorPairs([]*v1.Pod{static("c", "1"), static("a", "1")}, []*v1.Pod{mirror("b", "1"), mirror("c", "1")}, nil)
	var names string
	for _, p := range got {
		_, name := p.Name()
		names += name
		if p.Static != nil {
			names += "s"
		}
		if p.Mirror != nil {
			names += "m"
		}
	}
	check.Equal(t, names, "asbmcsm", "got")
}

// TestNew: what NodeRestriction asks for, and nothing of the static pod changed.
func TestNew(t *testing.T) {
	s := static("a", "1")
	before := s.DeepCopy()
	m := NewMirror(s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}})
	if m.UID != "" || m.ResourceVersion != "" || m.Status.Phase != "" || m.Annotations["kubernetes.io/config.mirror"] != "1" {
		t.Errorf("got %+v", m)
	}
	if o := m.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].UID != "u" || o[0].Controller == nil || !*o[0].Controller || o[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v", o)
	}
	check.Equal(t, len(s.Annotations), len(before.Annotations), "the static pod was changed")
}

func TestShown(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []StaticPod
		want string
	}{
		{"none", nil, ""},
		{"in order of name", []StaticPod{{Pod: static("b", "1")}, {Pod: static("a", "2")}}, "a 2, b 1, "},
		{"of two of a name the oldest", []StaticPod{{Pod: static("a", "1")}, {Pod: static("a", "2")}}, "a 1, "},
		{"or the one that was begun: it has to end first",
			[]StaticPod{{Pod: static("a", "1")}, {Pod: static("a", "2"), HasActor: true}}, "a 2, "},
		{"one that came back has another mirror", []StaticPod{{Pod: static("a", "1"), Life: 3, HasActor: true}}, "a 1 in life 3, "},
	} {
		got := ""
		for _, p := range Mirrored(c.all) {
			got += p.Name + " " + p.Annotations["kubernetes.io/config.hash"]
			if life, is := p.Annotations["troupe.dev/life"]; is {
				got += " in life " + life
			}
			got += ", "
		}
		check.Equal(t, got, c.want, "%s", c.name)
	}
}
