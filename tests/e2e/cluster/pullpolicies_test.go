package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// guard pushes an image that only that user with that password gets, in a repository of its own, and returns its name.
func guard(t *testing.T, path, program string, may func(user, password string) bool) string {
	t.Helper()
	registry := check.Value(shared.Registry())(t)
	repository := check.Value(lab.Repository())(t)
	image := check.Value(lab.ProgramImage(context.WithoutCancel(t.Context()), repository, program))(t)
	name := "troupe.local/" + path + "/app:v1"
	check.Fatal(t, registry.Push(t.Context(), name, image))
	registry.Guard(path, may)
	return name
}

// outcome is what becomes of a pod that wants an image: ready, or why it waits.
func outcome(p *v1.Pod) string {
	if ready(p) == nil {
		return "ready"
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			switch w.Reason {
			case "ErrImagePull", "ImagePullBackOff":
				return "ErrImagePull"
			case "ErrImageNeverPull":
				return w.Reason
			}
		}
	}
	return ""
}

// TestPullPolicies: who may use a private image that is on the node, under all four policies, and but for NeverVerify with
// the kubelet in turn with troupe on the same node: each goes on with what the other has on record.
//
//tier:all the kubelet runs beside
func TestPullPolicies(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	troupe, kubelet := agentOf(t, "troupe"), agentOf(t, "kubelet")
	const user, password = "u", "p"
	may := func(u, p string) bool { return u == user && p == password }
	images := map[string]string{"troupe": guard(t, "policies/one", "web", may), "kubelet": guard(t, "policies/two", "work", may)}
	before := guard(t, "policies/before", "crash", may)

	policy := func(p string) string {
		// A kubelet whose disk is over the threshold forgets the records of images that are in use.
		s := "imageGCHighThresholdPercent: 100\nimagePullCredentialsVerificationPolicy: " + p + "\n"
		if p == "NeverVerifyAllowlistedImages" {
			s += "preloadedImagesVerificationAllowlist: [troupe.local/policies/before/app]\n"
		}
		return s
	}
	b, m := joinedAs(t, "pull-policies", troupe, policy("NeverVerifyPreloadedImages"))
	auth := &runtimeapi.AuthConfig{Username: user, Password: password}
	check.Value(b.lab.Images().PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: before}, Auth: auth}))(t)
	b.secret(t, "right", v1.SecretTypeDockerConfigJson, map[string]string{v1.DockerConfigJsonKey: `{"auths":{"troupe.local/policies":{"auth":"` +
		base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + `"}}}`})
	pod := func(name, image string, policy v1.PullPolicy, secrets ...string) {
		b.create(t, b.pod(name, func(s *v1.PodSpec) {
			c := &s.Containers[0]
			c.Image, c.ImagePullPolicy = image, policy
			if image == images["kubelet"] {
				c.Args = []string{"sleep"}
			}
			for _, n := range secrets {
				s.ImagePullSecrets = append(s.ImagePullSecrets, v1.LocalObjectReference{Name: n})
			}
		}))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.told(t))
		}
	})
	const refusal, never = "ErrImagePull", "ErrImageNeverPull"
	owned := map[string]bool{}
	for i, phase := range []struct {
		policy string
		agents []member.Agent
		// without, neverPull and preloaded are what becomes of pods without a secret.
		without, neverPull, preloaded string
	}{
		{"NeverVerifyPreloadedImages", []member.Agent{troupe, kubelet, troupe}, refusal, never, "ready"},
		{"NeverVerify", []member.Agent{troupe}, "ready", "ready", "ready"},
		{"NeverVerifyAllowlistedImages", []member.Agent{kubelet, troupe}, refusal, never, "ready"},
		{"AlwaysVerify", []member.Agent{kubelet, troupe}, refusal, never, refusal},
	} {
		for j, agent := range phase.agents {
			if i+j > 0 {
				check.Fatal(t, m.Kill(t.Context()))
				check.Fatal(t, m.Configure(agent, policy(phase.policy)))
				check.Fatal(t, m.Start())
			}
			want := map[string]string{}
			at := fmt.Sprintf("%d-%d", i, j)
			if !owned[agent.Name] {
				owned[agent.Name] = true
				pod("owner-"+agent.Name, images[agent.Name], v1.PullIfNotPresent, "right")
				b.awaitPod(t, "owner-"+agent.Name, "has the image", ready)
			}
			for _, by := range []string{"troupe", "kubelet"} {
				if owned[by] {
					pod("without-"+by+at, images[by], v1.PullIfNotPresent)
					pod("never-"+by+at, images[by], v1.PullNever)
					pod("mine-"+by+at, images[by], v1.PullNever, "right")
					want["without-"+by+at], want["never-"+by+at], want["mine-"+by+at] = phase.without, phase.neverPull, "ready"
				}
			}
			pod("pre-"+at, before, v1.PullIfNotPresent)
			want["pre-"+at] = phase.preloaded
			for name, of := range want {
				b.awaitPod(t, name, "is "+of+" with "+agent.Name+" and "+phase.policy, func(p *v1.Pod) error {
					got := outcome(p)
					if name == "pre-"+at && got == "" && p.Status.ContainerStatuses != nil && p.Status.ContainerStatuses[0].ContainerID != "" {
						got = "ready" // it is made to crash
					}
					if got != of {
						return fmt.Errorf("it is %q: %+v", got, p.Status.ContainerStatuses)
					}
					return nil
				})
				b.remove(t, name)
			}
		}
	}
}

// told are the events of images of all pods, and the records of pulls.
func (b *bed) told(t *testing.T) string {
	list, err := b.admin.CoreV1().Events(b.name).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, e := range list.Items {
		if strings.Contains(e.Message, "mage") {
			lines = append(lines, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
		}
	}
	files, _ := filepath.Glob(filepath.Join(b.Root(), "image_manager", "*", "*"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		lines = append(lines, fmt.Sprintf("%s %s %v", f, data, err))
	}
	return strings.Join(lines, "\n")
}
