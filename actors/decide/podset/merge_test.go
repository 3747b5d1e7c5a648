package podset

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
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
		check.Equal(t, got, c.want, "%s", c.name)
	}
}

func TestMergeKeepsNamespacesApart(t *testing.T) {
	other := made("web#2")
	other.Namespace = "other"
	check.Equal(t, show(Merge([]Source{{podspec.File, []*v1.Pod{made("web#1"), other}}})), "web#1@file web#2@file", "it")
}

// running is a pod of the runtime with sandboxes made so long after now.
// running is a pod with sandboxes made at these times after now, or before it in an earlier life of the machine: those
// do not run.
func running(p *v1.Pod, made ...time.Duration) observed.RuntimePod {
	rp := observed.RuntimePod{Ref: observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}}
	for _, d := range made {
		state := observed.SandboxReady
		if d < 0 {
			state = observed.SandboxNotReady
		}
		rp.Sandboxes = append(rp.Sandboxes, observed.Sandbox{CreatedAt: now.Add(d), State: state})
	}
	return rp
}

func TestStartOrder(t *testing.T) {
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
		{"what ran before comes after what runs, and before what is new", "a b c d",
			map[string][]time.Duration{"b": {-time.Hour}, "c": {-2 * time.Hour}, "d": {time.Hour}}, "d c b a"},
		{"of new ones the critical", "a b/5 c/2000001000 d/-1", nil, "c b a d"},
		{"after a reboot the critical, then by priority", "a b/5 c/2000001000 d/5",
			map[string][]time.Duration{"a": {-4 * time.Hour}, "b": {-time.Hour}, "c": {-time.Hour}, "d": {-2 * time.Hour}}, "c d b a"},
		{"priority gives no place before one that runs", "a/9 b", map[string][]time.Duration{"a": {-time.Hour}, "b": {time.Hour}}, "b a"},
		{"without a sandbox it holds nothing", "a b", map[string][]time.Duration{"a": {}, "b": {0}}, "b a"},
	} {
		wanted := Merge([]Source{{podspec.API, prioritized(c.wanted)}})
		before := show(wanted)
		runtime := map[types.UID]observed.RuntimePod{}
		for name, at := range c.runtime {
			runtime[types.UID(name)] = running(made(name), at...)
		}
		var got []string
		for _, w := range StartOrder(wanted, runtime) {
			got = append(got, w.Pod.Name)
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s: %v", c.name, got)
		check.Equal(t, before, show(wanted), "%s: the argument was changed", c.name)
	}
}

// prioritized lists pods, some with a priority: "a b/5".
func prioritized(names string) (out []*v1.Pod) {
	for s := range strings.FieldsSeq(names) {
		name, priority, found := strings.Cut(s, "/")
		p := made(name)
		if n, err := strconv.ParseInt(priority, 10, 32); found && err == nil {
			p.Spec.Priority = new(int32(n))
		}
		out = append(out, p)
	}
	return out
}

// TestStaticPodsStartFirst: also without a priority.
func TestStaticPodsStartFirst(t *testing.T) {
	static := made("static")
	static.Annotations = map[string]string{podspec.AnnotationSource: "file"}
	wanted := []Want{{prioritized("a/2000000000")[0], podspec.API}, {static, podspec.File}, {made("b"), podspec.API}}
	check.Equal(t, show(StartOrder(wanted, nil)), "static#static@file a#a@api b#b@api", "it")
}
