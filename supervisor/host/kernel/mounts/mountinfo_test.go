package mounts

import (
	"strings"
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
	for _, text := range []string{"nonsense\n", "x 27 0:21 / /proc rw - proc proc rw\n", "22 27 0:21 / - proc proc rw\n", "22 27 0:21 / /proc rw - proc\n"} {
		check.Fails(t, check.Err(parse(text)), "%s is taken", text)
	}
}

// TestHostileMounts: a container can have a part of its volume by subPath, and move that below so many directories that
// no buffer for a line is long enough. The other lines are read all the same. Options may have spaces (WSL2).
func TestHostileMounts(t *testing.T) {
	deep := strings.Repeat("/"+strings.Repeat("x", 255), 1000)
	got := check.Value(parse("35 31 0:37 " + deep + " /a rw - tmpfs tmpfs rw\n" +
		`36 31 0:60 / /Docker/host rw - 9p drvfs rw,path=C:\Program Files\Docker;uid=0,trans=virtio` + "\n"))(t)
	if len(got) != 2 || got[0].Root != deep || got[0].Point != "/a" {
		t.Fatalf("%d mounts", len(got))
	}
	if want := (Mount{ID: 36, Point: "/Docker/host", Type: "9p", Source: "drvfs", Device: "0:60", Root: "/", Options: `rw,path=C:\Program Files\Docker;uid=0,trans=virtio`}); got[1] != want {
		t.Errorf("%+v, want %+v", got[1], want)
	}
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
