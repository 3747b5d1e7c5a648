package mirrorpods

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
	p := New(static(name, hash), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}})
	p.UID = "m"
	return p
}

func TestDo(t *testing.T) {
	deleted, now := mirror("a", "1"), metav1.Now()
	deleted.DeletionTimestamp = &now
	outlived := Pair{Static: static("a", "1"), Mirror: mirror("a", "1"), Outlived: true}
	for name, c := range map[string]struct {
		pair   Pair
		all    bool
		want   Verb
		stands bool
	}{
		"no mirror yet":               {Pair{Static: static("a", "1"), Mirror: nil}, false, Create, false},
		"as it should be":             {Pair{Static: static("a", "1"), Mirror: mirror("a", "1")}, true, Keep, true},
		"of an older manifest":        {Pair{Static: static("a", "2"), Mirror: mirror("a", "1")}, true, Delete, false},
		"and while others may come":   {Pair{Static: static("a", "2"), Mirror: mirror("a", "1")}, false, Delete, false},
		"a user deletes it":           {Pair{Static: static("a", "1"), Mirror: deleted}, true, Delete, false},
		"has ended, and its pod runs": {outlived, true, Delete, false},
		"and others may come":         {outlived, false, Delete, false},
		"no static pod":               {Pair{Static: nil, Mirror: mirror("a", "1")}, true, Delete, false},
		"no static pod, perhaps":      {Pair{Static: nil, Mirror: mirror("a", "1")}, false, Keep, false},
		"no static pod, deleted, may": {Pair{Static: nil, Mirror: deleted}, false, Keep, false},
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
	m := New(read("i:1"), &v1.Node{})
	check.Equal(t, m.Annotations[podspec.AnnotationMirror], "mine", "the hash of the mirror")
	if !(Pair{Static: read("i:1"), Mirror: m}).Stands() || (Pair{Static: read("i:2"), Mirror: m}).Stands() {
		t.Error("the mirror must stand until its manifest is edited")
	}
	earlier := m.DeepCopy() // as an older agent made it
	earlier.Annotations[podspec.AnnotationMirror] = earlier.Annotations[manifest.AnnotationManifest]
	delete(earlier.Annotations, manifest.AnnotationManifest)
	check.Equal(t, Pair{Static: read("i:1"), Mirror: earlier}.Do(true), Delete, "a mirror of an earlier agent")
}

func TestPairs(t *testing.T) {
	got := Pairs([]*v1.Pod{static("c", "1"), static("a", "1")}, []*v1.Pod{mirror("b", "1"), mirror("c", "1")}, nil)
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
	m := New(s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}})
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
		all  []Static
		want string
	}{
		{"none", nil, ""},
		{"in order of name", []Static{{Pod: static("b", "1")}, {Pod: static("a", "2")}}, "a 2, b 1, "},
		{"of two of a name the oldest", []Static{{Pod: static("a", "1")}, {Pod: static("a", "2")}}, "a 1, "},
		{"or the one that was begun: it has to end first",
			[]Static{{Pod: static("a", "1")}, {Pod: static("a", "2"), HasActor: true}}, "a 2, "},
		{"one that came back has another mirror", []Static{{Pod: static("a", "1"), Life: 3, HasActor: true}}, "a 1 in life 3, "},
	} {
		got := ""
		for _, p := range Shown(c.all) {
			got += p.Name + " " + p.Annotations["kubernetes.io/config.hash"]
			if life, is := p.Annotations["troupe.dev/life"]; is {
				got += " in life " + life
			}
			got += ", "
		}
		check.Equal(t, got, c.want, "%s", c.name)
	}
}
