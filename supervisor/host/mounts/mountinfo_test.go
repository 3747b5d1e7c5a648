package mounts

import "testing"

func TestParseMounts(t *testing.T) {
	got, err := Parse(`22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 shared:2 - nfs4 server:/x\040y rw,errors=continue
40 31 0:37 / /a rw - tmpfs  rw
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[1] != (Mount{Point: `/a b\c`, Type: "nfs4", Source: "server:/x y", Device: "98:0", Root: "/mnt1"}) {
		t.Errorf("got %+v", got)
	}
	if below := Below(got, "/a"); len(below) != 1 || below[0].Point != "/a" {
		t.Errorf("below /a: %v", below)
	}
	if _, err := Parse("nonsense\n"); err == nil {
		t.Error("nonsense is taken")
	}
}
