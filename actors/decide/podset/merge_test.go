package podset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// made is a pod "name" or "name#uid"; without a UID that is the name.
func made(s string) *v1.Pod {
	name, uid, found := strings.Cut(s, "#")
	if !found {
		uid = name
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
}

func list(names string) (out []*v1.Pod) {
	for s := range strings.FieldsSeq(names) {
		out = append(out, made(s))
	}
	return out
}

func show(wanted []Want) string {
	var out []string
	for _, w := range wanted {
		out = append(out, fmt.Sprintf("%s#%s@%s", w.Pod.Name, w.Pod.UID, w.Origin))
	}
	return strings.Join(out, " ")
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ name, api, file, http, want string }{
		{name: "no pods"},
		{name: "pods of all sources, in the order of each", api: "a b", file: "d c", http: "e",
			want: "a#a@api b#b@api d#d@file c#c@file e#e@http"},
		{name: "of two static pods of a name, the first source's", file: "web#1", http: "web#2", want: "web#1@file"},
		{name: "two static pods of a name in one source", file: "web#1 web#2", want: "web#1@file"},
		{name: "a pod of the apiserver is kept beside a static pod of its name", api: "web#1", file: "web#2",
			want: "web#1@api web#2@file"},
		{name: "two pods of the apiserver of a name: one is being deleted", api: "web#1 web#2", want: "web#1@api web#2@api"},
	} {
		got := show(Merge([]Source{{podspec.API, list(c.api)}, {podspec.File, list(c.file)}, {podspec.HTTP, list(c.http)}}))
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestMergeKeepsNamespacesApart(t *testing.T) {
	other := made("web#2")
	other.Namespace = "other"
	if got := show(Merge([]Source{{podspec.File, []*v1.Pod{made("web#1"), other}}})); got != "web#1@file web#2@file" {
		t.Error(got)
	}
}

// running is a pod of the runtime with sandboxes made so long after now.
func running(p *v1.Pod, made ...time.Duration) observed.RuntimePod {
	rp := observed.RuntimePod{Ref: observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}}
	for _, d := range made {
		rp.Sandboxes = append(rp.Sandboxes, observed.Sandbox{CreatedAt: now.Add(d), State: observed.SandboxReady})
	}
	return rp
}

func TestOldestFirst(t *testing.T) {
	for _, c := range []struct {
		name, wanted string
		runtime      map[string][]time.Duration
		want         string
	}{
		{"nothing runs: the order of the sources", "b a c", nil, "b a c"},
		{"a pod that runs comes before one that does not", "a b c", map[string][]time.Duration{"c": {time.Hour}}, "c a b"},
		{"those that run in the order in which they were made", "a b c",
			map[string][]time.Duration{"a": {3 * time.Second}, "b": {time.Second}, "c": {2 * time.Second}}, "b c a"},
		{"the first of its sandboxes counts", "a b",
			map[string][]time.Duration{"a": {time.Second}, "b": {time.Hour, 0}}, "b a"},
		{"made at one time: the order of the sources", "b a", map[string][]time.Duration{"a": {0}, "b": {0}}, "b a"},
		{"without a sandbox it holds nothing", "a b", map[string][]time.Duration{"a": {}, "b": {0}}, "b a"},
	} {
		wanted := Merge([]Source{{podspec.File, list(c.wanted)}})
		before := show(wanted)
		runtime := map[types.UID]observed.RuntimePod{}
		for name, at := range c.runtime {
			runtime[types.UID(name)] = running(made(name), at...)
		}
		var got []string
		for _, w := range OldestFirst(wanted, runtime) {
			got = append(got, w.Pod.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
		if show(wanted) != before {
			t.Errorf("%s: the argument was changed", c.name)
		}
	}
}
