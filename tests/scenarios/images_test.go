package scenarios

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
)

const appImage = "registry.test/app:1"

// TestSilentRuntimeIsNotHeldAgainstImages: the runtime gave no answer about an
// image for ten minutes. When it answers again, who waited runs soon, and who
// comes then at once.
func TestSilentRuntimeIsNotHeldAgainstImages(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]simcri.Fault{
		"hangs": {Hang: true},
		"fails": {Fail: true, Kind: port.Unavailable, Detail: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1)
			w.add(aPod("first"))
			w.allUp(10 * time.Second)
			silent := true
			w.fault = func(c simcri.Call) simcri.Fault {
				if silent && c.Method == simcri.ImageStatus {
					return f
				}
				return simcri.Fault{}
			}
			w.add(aPod("waits"))
			w.run(10 * time.Minute)
			if c := w.pod("waits").Containers; len(c) != 1 || c[0].Reason != "ImageInspectError" {
				t.Errorf("people are shown %+v, want reason ImageInspectError", c)
			}
			silent = false
			limit := 11 * time.Second
			if f.Hang {
				limit += 2 * time.Minute // the deadline of the last look
			}
			w.until(limit, "the pod that waited", func() bool { return w.runs("waits", "app", 0) })
			w.add(aPod("late"))
			w.until(3*time.Second, "the pod that came later", func() bool { return w.runs("late", "app", 0) })
			w.quiet()
		})
	}
}

// TestPullBackoffIsNotForWhoNeedsNoPull: one pod pulls always and the registry
// is gone; another is content with the image that is there.
func TestPullBackoffIsNotForWhoNeedsNoPull(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("first"))
	w.allUp(10 * time.Second)
	w.registry.Withdraw(appImage)
	always := aPod("always")
	always.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
	w.add(always)
	w.run(10 * time.Minute)
	pulls := w.rt.Calls(simcri.PullImage)
	w.add(aPod("content"))
	w.until(3*time.Second, "the pod whose image is there", func() bool { return w.runs("content", "app", 0) })
	if n := w.rt.Calls(simcri.PullImage); n != pulls {
		t.Errorf("%d pulls before the end of the backoff", n-pulls)
	}
	w.run(time.Second)
	if c := w.pod("always").Containers; len(c) != 1 || c[0].Reason != "ImagePullBackOff" {
		t.Errorf("of the pod that pulls always people are shown %+v", c)
	}
	w.registry.Put(appImage, simcri.RegistryImage{})
	w.allUp(6 * time.Minute)
	w.quiet()
}

// TestImageIsBroughtByHand: somebody loads the image that cannot be pulled, or
// must not be. Nobody waits for the end of a backoff then.
func TestImageIsBroughtByHand(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.PullPolicy{v1.PullIfNotPresent, v1.PullNever} {
		t.Run(string(policy), func(t *testing.T) {
			w := newNode(t, 1)
			w.registry.Withdraw(appImage)
			web := aPod("web")
			web.Spec.Containers[0].ImagePullPolicy = policy
			w.add(web)
			w.run(10 * time.Minute)
			if n := len(w.events); n > 100 {
				t.Errorf("%d events in ten minutes", n)
			}
			w.rt.MakeImagePresent(appImage, simcri.RegistryImage{})
			w.until(25*time.Second, "the pod", func() bool { return w.runs("web", "app", 0) })
			w.quiet()
		})
	}
}

// TestPullForNobody: a pull ends when the last pod that waits for it is taken down. It would hold a slot, and fill the
// disk, for hours.
func TestPullForNobody(t *testing.T) {
	w := parallelNode(t, 1)
	w.registry.Put(appImage, simcri.RegistryImage{SizeBytes: 1 << 40})
	w.add(aPod("web"), aPod("twin"))
	w.until(10*time.Second, "the pull", func() bool { return w.rt.Truth().Pulling == 1 })
	w.drop("web")
	w.run(time.Minute)
	check.Equal(t, w.rt.Truth().Pulling, 1, "pulls while the other waits")
	w.drop("twin")
	w.until(10*time.Second, "it is given up", func() bool { return w.rt.Truth().Pulling == 0 })
	w.quiet()
	w.registry.Put(appImage, simcri.RegistryImage{})
	w.add(aPod("web"))
	w.allUp(10 * time.Second)
	w.quiet()
}

// TestFailedPodPullsNothing: the object of a pod that has failed may stay for days. It was pulled for until then.
func TestFailedPodPullsNothing(t *testing.T) {
	w, c := parallelCluster(t, 1)
	w.registry.Withdraw(appImage)
	job := aPod("job")
	job.Spec.ActiveDeadlineSeconds = new(int64(60))
	c.create(job)
	w.until(5*time.Minute, "it has failed", func() bool { p := c.get("job"); return p != nil && finished(p) })
	w.run(time.Second)
	pulls, told := w.rt.Calls(simcri.PullImage), w.count("job", "Failed")
	w.run(time.Hour)
	check.Equal(t, w.rt.Calls(simcri.PullImage), pulls, "pulls after an hour")
	check.Equal(t, w.count("job", "Failed"), told, "events after an hour")
	c.delete("job", nil)
	w.until(time.Minute, "nothing is left", c.nothingLeft)
	w.clusterQuiet()
}

// TestLostImageOfAVolume: somebody removes the image of a volume beside a pod that runs. A container that is made again
// has it pulled again. (crictl rmi --prune does not know that volumes use images)
func TestLostImageOfAVolume(t *testing.T) {
	const data = "registry.test/data:1"
	w := parallelNode(t, 1)
	w.registry.Put(data, simcri.RegistryImage{})
	w.add(aPod("web").imageVolume("data", data).script("app", "run-for", "1h"))
	w.allUp(10 * time.Second)
	w.rt.RemoveImage(t.Context(), data, func(err error) { check.Fatal(t, err) })
	w.until(2*time.Hour, "the container was made again", func() bool { return w.runs("web", "app", 1) })
	w.quiet()
}

// imageVolume is a volume with the files of an image.
func (s *spec) imageVolume(name, reference string) *spec {
	s.volume(name)
	s.Spec.Volumes[len(s.Spec.Volumes)-1].VolumeSource = v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: reference}}
	return s
}

// TestImageOfVolumeStays: an agent that is killed beside a pod with the files of an image, and started again, keeps
// this image, and removes one that nobody uses.
func TestImageOfVolumeStays(t *testing.T) {
	t.Parallel()
	const data, unused = "registry.test/data:1", "registry.test/unused:1"
	w := newNode(t, 1, withConfig(func(c *agent.Config) { c.ImageGC.MaxAge = time.Hour }))
	w.registry.Put(data, simcri.RegistryImage{})
	w.add(aPod("web").imageVolume("data", data))
	w.allUp(10 * time.Second)
	w.rt.MakeImagePresent(unused, simcri.RegistryImage{})
	has := func(name string) bool {
		return slices.ContainsFunc(w.rt.Truth().Images, func(i observed.Image) bool { return slices.Contains(i.RepoTags, name) })
	}
	w.restart()
	w.run(3 * time.Hour)
	if !has(data) || has(unused) {
		t.Errorf("image of the volume: %v, unused image: %v; want only the first", has(data), has(unused))
	}
	w.drop("web")
	w.until(2*time.Hour, "the image goes after the pod", func() bool { return !has(data) })
	w.quiet()
}
