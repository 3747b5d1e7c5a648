package scenarios

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

const aheadImage = "registry.test/ahead:1"

// withAhead has a node pull these ahead, from a registry that has them; each takes 40 seconds.
func withAhead(names ...string) option {
	return func(s *setting) {
		for _, name := range names {
			s.w.registry.Put(name, simcri.RegistryImage{SizeBytes: 40 << 30})
		}
		withConfig(func(c *agent.Config) {
			for _, name := range names {
				c.PullAhead = append(c.PullAhead, imagecache.Image{Name: name})
			}
		})(s)
	}
}

// startTimes are how long pods take that come while images are pulled ahead, each with an image of its own to pull.
func startTimes(t *testing.T, seed uint64, images ...string) (took time.Duration) {
	w := newNode(t, seed, withAhead(images...))
	w.run(imagecache.Quiet + 5*time.Second)
	for i := range 6 {
		name := fmt.Sprint("pod-", i)
		w.registry.Put("registry.test/"+name+":1", simcri.RegistryImage{SizeBytes: 2 << 30})
		w.add(aPod(name).image("registry.test/" + name + ":1"))
		took += w.until(10*time.Second, name, func() bool { return w.runs(name, "app", 0) })
		w.run(time.Duration(i) * 4 * time.Second)
	}
	w.until(time.Duration(len(images)+1)*3*time.Minute, "the images are there", func() bool {
		for _, name := range images {
			if !w.hasImage(name) {
				return false
			}
		}
		return true
	})
	w.quiet()
	return took
}

// TestAheadSlowsNoStart: pods start as fast as on a node that pulls nothing ahead, although their pulls share the
// bandwidth; and all images are there in the end.
func TestAheadSlowsNoStart(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		alone := startTimes(t, seed)
		ahead := startTimes(t, seed, aheadImage, "registry.test/ahead:2", "registry.test/ahead:3")
		// The runtime hears in some milliseconds that a pull is given up.
		if ahead > alone+6*100*time.Millisecond {
			t.Errorf("seed %d: six pods took %v, and %v without pulls ahead", seed, ahead, alone)
		}
	}
}

// TestAheadOverRestarts: an agent that is killed in the middle of a pull ahead makes the next one pull it; what is there
// is not pulled again.
func TestAheadOverRestarts(t *testing.T) {
	w := parallelNode(t, 1, withAhead(aheadImage))
	w.run(imagecache.Quiet + 5*time.Second)
	w.restart()
	w.until(2*time.Minute, "the image", func() bool { return w.hasImage(aheadImage) })
	pulls := w.rt.Calls(simcri.PullImage)
	w.restart()
	w.run(10 * time.Minute)
	if n := w.rt.Calls(simcri.PullImage); n != pulls {
		t.Errorf("it was pulled %d times more", n-pulls)
	}
	w.quiet()
}

func (w *world) hasImage(name string) bool {
	for _, i := range w.rt.Truth().Images {
		if slices.Contains(i.RepoTags, name) {
			return true
		}
	}
	return false
}
