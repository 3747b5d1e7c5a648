package csi_test

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// publishing is a rig with a volume that is being published. The agent may have to give its files to the group of its pod.
func publishing(t *testing.T, walks bool) *rig {
	t.Helper()
	r := newRig(t)
	r.register(storagev1.CSIDriverSpec{AttachRequired: new(false), FSGroupPolicy: new(storagev1.FileFSGroupPolicy)})
	r.nodeSays(nil, nil)
	s := spec("a", "v")
	if walks {
		s.Group = new(int64(7))
	}
	r.use(s)
	r.calls.Answer(nil, "info "+driver, "stage v")
	r.Settle()
	return r
}

// TestWalk: giving the files of a large volume to a group takes as long as it takes.
func TestWalk(t *testing.T) {
	r := publishing(t, true)
	r.Keep("driver: publish", "volumes: a data-v")
	r.WantByListener("says so", "driver: publish v for a", "volumes: a data-v waits: CSI driver d.example.com has not answered NodeStageVolume of volume v",
		"volumes: a data-v waits: CSI driver d.example.com has not answered NodePublishVolume of volume v, or its files are being given to the group of the pod (fsGroup 7), which takes the longer the more there are")
	r.Advance(24 * time.Hour)
	r.WantByListener("it goes on")
	for _, files := range []int64{7, 7, 9} {
		r.walked(files)
	}
	const given = "volumes: a data-v waits: its files are being given to the group of the pod (fsGroup 7), "
	r.WantByListener("says how far it is", given+"7 of them so far", given+"7 of them so far", given+"9 of them so far")
	r.calls.Answer(nil, "publish v for a")
	r.WantByListener("done", "volumes: a data-v at /a")
}

// TestGivenUp: a publication whose pod has gone ends before its deadline, but not at once: the driver may be working. Then
// it is undone. One that gives files to a group is no exception.
func TestGivenUp(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "a little later": 40 * time.Second, "later": time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := publishing(t, after == time.Hour)
			r.Advance(after)
			r.Forget()
			keep := func() { r.Keep("driver:", "volumes: a released") }
			r.release("a")
			if after == 0 {
				r.Advance(30*time.Second - time.Millisecond)
				keep()
				r.WantByListener("the driver may be working")
				r.Advance(time.Millisecond)
			}
			keep()
			r.WantByListener("given up", "driver: publish v for a: given up")
			r.calls.Answer(fails(port.Canceled, ""), "publish v for a")
			r.calls.Answer(nil, "unpublish v for a")
			keep()
			r.WantByListener("undone", "driver: unpublish v for a", "driver: unstage v", "volumes: a released")
		})
	}
}
