package volume

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/subpath"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// A pod that waits for its turn does not keep other pods from the target of its disk, also where the disk is mapped
// already: that asks a child all the same.
func TestNoTurnHoldsATarget(t *testing.T) {
	for name, ask := range map[string]diskRequest{"to be mounted": {}, "mapped": {Map: &blockmap.Map{}}} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { noTurnHoldsATarget(t, ask) }) })
	}
}

func noTurnHoldsATarget(t *testing.T, ask diskRequest) {
	h := &Volumes{
		children: newChildren("/pods", func(string) bool { return false }),
		mounts: func() (all []mounts.Mount, err error) {
			if ask.Map != nil {
				all = append(all, mounts.Mount{Point: "/disk"})
			}
			return all, nil
		},
	}
	ask.Used = blockdevice.Used{ISCSI: &blockdevice.ISCSI{IQN: testIQN}}
	target := func(pod string) func() {
		return check.Value(h.target(t.Context(), &request{Op: opDisk, Path: "/disk", Disk: &ask, pod: pod}))(t)
	}
	var taken []*child.Turn
	take := func() {
		for range serversOfPod {
			taken = append(taken, check.Value(h.children.queues[servers].Wait(t.Context(), "greedy"))(t))
		}
	}
	give := func() {
		for _, turn := range taken {
			turn.Back()
		}
		taken = nil
	}
	take()
	time.Sleep(time.Second) // until they have given back their slots
	turn := make(chan func(), 1)
	go func() { turn <- target("greedy") }()
	synctest.Wait()
	target("other")() // it would wait for ever
	check.Equal(t, len(turn), 0, "turns of the greedy pod")
	taken[0].Back()
	taken = taken[1:]
	synctest.Wait()
	check.Equal(t, len(turn), 1, "turns of the greedy pod when one of its children is gone")
	(<-turn)()
	give()
	check.Equal(t, len(h.disks.held.of), 0, "targets that are held at the end")
	take() // it would wait for ever
	give()
}

// Statistics of servers that do not answer hold up nothing that a pod needs.
func TestStatisticsHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChildren("/pods", func(string) bool { return true })
		reserve := func(r request) func() { return check.Value(c.reserve(t.Context(), &r))(t) }
		began := time.Now()
		for range 4 { // as many as start at once
			r := roomsRequest("/server")
			r.pod = "u1"
			defer reserve(r)()
		}
		reserve(request{Op: opBind, Path: "/pods/u2/x", Mounted: true, Group: new(int64(1))})()
		reserve(roomsRequest("/pods/u2/x"))()
		check.Equal(t, time.Since(began), 0, "a volume got its group, and another was measured, after")
	})
}

func TestWaitsFor(t *testing.T) {
	local := func(path string) bool { return strings.HasPrefix(path, "/here") }
	for _, c := range []struct {
		r    request
		want waitsFor
	}{
		{request{Op: opHostPath, Path: "/here/x"}, nothing},
		{request{Op: opHostPath, Path: "/there/x"}, servers},
		{request{Op: opSubPaths, Path: "/here", Parts: []subpath.Part{{Volume: "/here/a"}}}, nothing},
		{request{Op: opSubPaths, Path: "/here", Parts: []subpath.Part{{Volume: "/here/a"}, {Volume: "/there"}}}, servers},
		{request{Op: opBind, Path: "/here/pod", Source: "/here/disk"}, nothing},
		{request{Op: opBind, Path: "/here/pod", Source: "/there"}, servers},
		{request{Op: opBind, Path: "/here/pod", Mounted: true, Group: new(int64(1))}, walks},
		{request{Op: opBind, Path: "/there/pod", Mounted: true, Group: new(int64(1))}, serverWalks},
		{request{Op: opGrow, Path: "/here/pod", Source: "/here/dev"}, nothing},
		{request{Op: opNFS, Path: "/here/pod", Source: "server:/x"}, servers},
		{request{Op: opDisk, Path: "/here", Disk: &diskRequest{}}, servers},
		{request{Op: opDisk, Path: "/here", Disk: &diskRequest{Release: true}}, ends},
		{request{Op: opUnmount, Path: "/there"}, ends},
		{request{Op: opForce, Path: "/there"}, ends},
		{request{Op: opUnmap, Path: "/here"}, ends},
		{request{Op: opRoom, Paths: []string{"/there"}}, walks},
		{request{Op: opRoom, Paths: []string{"/there"}, pod: "u1"}, statistics},
		{request{Op: opTrees, Path: "/here"}, walks},
	} {
		check.Equal(t, c.r.waitsFor(local), c.want, "what %+v waits for", c.r)
	}
	for path, want := range map[string]string{"/pods/u1/volumes/x": "u1", "/pods/u1": "u1", "/plugins/x": "", "/podsx/u": ""} {
		check.Equal(t, (&request{Path: path}).owner("/pods"), want, "whose %s is", path)
	}
	check.Equal(t, (&request{Path: "/x", pod: "u2"}).owner("/pods"), "u2", "whose it says it is")
}

// A pod with many volumes of a server that does not answer delays no other pod, neither its parts of local volumes nor
// its volume of another server.
func TestADeadServerIsItsPodsAlone(t *testing.T) {
	hosttest.NeedRoot(t)
	asked := fakeMount(t, `case "$*" in *dead*) exec sleep 1000;; esac; exec /bin/mount -t tmpfs nfs "$last"`)
	l := newLab(t)
	root := l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{}))
	t.Cleanup(func() { l.unmount("u1") }) //nolint:errcheck // it is asked below
	nfs := func(name, server string) *v1.Volume {
		return &v1.Volume{Name: name, VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: "/x"}}}
	}
	greedy := newPod(func(p *v1.Pod) { p.UID = "u2" })
	stop, cancel := context.WithCancel(ctx(t))
	const many = 40
	ended := make(chan error, many)
	for i := range many {
		l.MountVolume(stop, port.MountVolume{Pod: greedy, Volume: nfs(fmt.Sprintf("v%d", i), "dead")},
			func(_ string, err error) { ended <- err })
	}
	tried := func() int {
		text, _ := os.ReadFile(asked)
		return strings.Count(string(text), "dead")
	}
	check.Until(t, "its share hangs", func() bool { return tried() == serversOfPod })
	check.Value(l.subPaths(containerplan.SubPath{Volume: "data", Root: root, SubPath: "new"}))(t)
	l.mustMount(newPod(), nfs("good", "good"))
	check.Fatal(t, l.unmount("u1"))
	check.Equal(t, tried(), serversOfPod, "mounts of one pod that hang")
	cancel()
	for range many {
		hosttest.WantError(t, <-ended, port.Canceled, "MountVolume")
	}
	check.Fatal(t, l.unmount(types.UID("u2")))
}
