package scenarios

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// withRecords has the node note how images were pulled, and verify that under a policy.
func withRecords(of kubelet.ImagePullCredentialsVerificationPolicy) option {
	return func(s *setting) {
		s.spec.PullRecords = true
		withConfig(func(c *agent.Config) { c.PullPolicy = &imagepull.VerificationPolicy{Verification: of} })(s)
	}
}

// tenants are two pods with the pull secret of a private image, and one without. They come one after the other.
func tenants(w *world) {
	w.rules.Entitles(func(p *v1.Pod, image string) bool {
		return image != private || slices.ContainsFunc(p.Spec.ImagePullSecrets, func(s v1.LocalObjectReference) bool { return s.Name == "right" })
	})
	c := w.cluster
	c.kubernetes()
	c.pullSecret("right", "u", "p")
	c.create(aPod("mine").image(private).pullsWith("right"))
	w.run(300 * time.Millisecond)
	c.create(aPod("thief").image(private))
	c.create(aPod("ours").image(private).pullsWith("right"))
}

func tenantsUp(w *world) bool { return w.cluster.allReady("mine", "ours") }

// stolen is whether the pod without the secret has a container.
func (w *world) stolen() bool {
	p := w.found("thief")
	return len(p) > 0 && len(w.truthOf("thief").Containers) > 0
}

// TestKilledBetweenPullAndRecord: an agent that is killed after any message while images are pulled and recorded lets no
// pod without the secret use the image, and the others run.
func TestKilledBetweenPullAndRecord(t *testing.T) {
	t.Parallel()
	atBoundaries(t, every(7), func(k int) *world {
		late := float64(k%3) / 2
		w, _ := newClusterNode(t, 1, withPrivateImage(), withRecords(kubelet.NeverVerifyPreloadedImages), withLateEffects(late))
		tenants(w)
		return w
	}, tenantsUp, func(k int, w *world) {
		w.restart()
		w.until(2*time.Minute, fmt.Sprintf("the pods with the secret, killed after %d messages", k), func() bool { return tenantsUp(w) })
		w.run(time.Minute)
		w.restart() // what the records say now counts
		w.run(time.Minute)
		if w.stolen() {
			w.failf("killed after %d messages: a pod without the secret has a container", k)
		}
		if files := w.node.Machine().PullRecords.Get(); len(files.Intents) > 0 && !thiefIsPulling(w, files) {
			w.failf("killed after %d messages: %d intents are left", k, len(files.Intents))
		}
	})
}

// thiefIsPulling says whether the one intent is that of the pod without the secret, which tries again and again.
func thiefIsPulling(w *world, files port.PullFiles) bool {
	return len(files.Intents) == 1 && files.Intents[0].Name == imagepull.RecordFileName(private) && w.doing("PullImage")
}

// TestRecordsUnderPolicies: a pod without the secret has the image of another where nothing is verified, and an image
// that was there before the agent where that is the policy.
func TestRecordsUnderPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy kubelet.ImagePullCredentialsVerificationPolicy
		before bool
		want   bool
	}{
		{kubelet.NeverVerify, false, true},
		{kubelet.NeverVerifyPreloadedImages, false, false},
		{kubelet.NeverVerifyPreloadedImages, true, true},
		{kubelet.AlwaysVerify, true, false},
	} {
		w, cl := newClusterNode(t, 1, withPrivateImage(), withRecords(c.policy))
		if c.before {
			w.rt.MakeImagePresent(private, simcri.RegistryImage{})
		}
		if !c.before {
			tenants(w)
			if c.policy == kubelet.NeverVerify {
				w.rules.Entitles(nil)
			}
			w.until(time.Minute, "the pods with the secret", func() bool { return tenantsUp(w) })
		} else {
			cl.kubernetes()
			cl.create(aPod("thief").image(private))
		}
		w.run(10 * time.Second)
		if got := w.stolen(); got != c.want {
			w.failf("%s, an image from before %v: the pod without the secret has a container: %v", c.policy, c.before, got)
		}
		w.kill()
	}
}

// TestRecordCannotBeWritten: without a record of the intent nothing is pulled, and the pod says why.
func TestRecordCannotBeWritten(t *testing.T) {
	w, c := parallelCluster(t, 1, withPrivateImage(), withRecords(kubelet.NeverVerifyPreloadedImages))
	full := true
	w.node.Machine().PullRecords.Fault = func(call machine.Call) (f machine.Fault) {
		if full && call.Verb == "SavePullIntent" {
			f.Err = &port.Error{Verb: call.Verb, Object: call.Name, Detail: "no space left on device"}
		}
		return f
	}
	c.kubernetes()
	c.pullSecret("right", "u", "p")
	c.create(aPod("mine").image(private).pullsWith("right"))
	w.run(5 * time.Second)
	if s := c.get("mine").Status.ContainerStatuses[0].State.Waiting; s == nil || s.Reason != "ImagePullBackOff" && s.Reason != "ErrImagePull" {
		t.Errorf("it waits for %+v", s)
	}
	check.Count(t, w.rt.Calls(simcri.PullImage), 0, "%d pulls without an intent")
	full = false
	w.until(time.Minute, "Ready", func() bool { return c.ready("mine") })
}
