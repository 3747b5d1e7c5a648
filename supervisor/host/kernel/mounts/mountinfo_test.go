package mounts

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestParseMounts(t *testing.T) {
	got := check.Value(parse(`22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /a\040b\134c\043 rw,noatime master:1 shared:2 - nfs4 server:/x\040y rw,errors=continue
40 31 0:37 / /a rw - tmpfs  rw,context="u:r:t:s0:c1,c2"
`))(t)
	if len(got) != 3 || got[1] != (Mount{ID: 36, Point: `/a b\c#`, Type: "nfs4", Source: "server:/x y", Device: "98:0", Root: "/mnt1", Shared: true, Options: "rw,errors=continue"}) {
		t.Errorf("got %+v", got)
	}
	if below := Below(got, "/a"); len(below) != 1 || below[0].Point != "/a" {
		t.Errorf("below /a: %v", below)
	}
	if got[0].Shared || got[2].Shared {
		t.Error("shared, although nothing says so")
	}
	if got[2].Source != "" || got[2].Options != `rw,context="u:r:t:s0:c1,c2"` {
		t.Errorf("without a source: %+v", got[2])
	}
	check.Fails(t, check.Err(parse("nonsense\n")), "nonsense is taken")
}

func TestOf(t *testing.T) {
	all := []Mount{{Point: "/", Type: "root"}, {Point: "/a", Type: "hidden"}, {Point: "/a/b", Type: "inner"}, {Point: "/a", Type: "above"}}
	for path, want := range map[string]string{"/a": "above", "/a/c": "above", "/a/b/d": "inner", "/ab": "root"} {
		if m := Of(all, path); m == nil || m.Type != want {
			t.Errorf("%s is on %v, want %s", path, m, want)
		}
	}
	if m := Of(all[1:], "/x"); m != nil {
		t.Errorf("on %v", m)
	}
}

func TestAt(t *testing.T) {
	all := []Mount{{Point: "/a", Type: "hidden"}, {Point: "/a/b", Type: "inner"}, {Point: "/a", Type: "above"}}
	for path, want := range map[string]string{"/a": "above", "/a/b": "inner"} {
		if m := At(all, path); m == nil || m.Type != want {
			t.Errorf("at %s is %v, want %s", path, m, want)
		}
	}
	if m := At(all, "/a/b/c"); m != nil {
		t.Errorf("at nothing: %v", m)
	}
}
