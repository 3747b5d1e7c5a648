package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// sizes are what a pod as a whole, and its containers in the order of their names, are given.
type sizes struct {
	whole      *v1.ResourceRequirements
	containers []v1.ResourceRequirements
}

func (s sizes) spec(spec *v1.PodSpec) {
	spec.Resources = s.whole
	app := spec.Containers[0]
	spec.Containers = nil
	for i := range s.containers {
		c := app
		if i > 0 {
			c = v1.Container{Image: lab.WorkImage, Args: []string{"sleep", "1h"}}
		}
		c.Name, c.Resources = fmt.Sprintf("c%d", i), s.containers[i]
		spec.Containers = append(spec.Containers, c)
	}
}

// ask is what a user does to resize a pod.
func (b *bed) ask(t *testing.T, pod string, s sizes) {
	t.Helper()
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	type spec struct {
		Resources  *v1.ResourceRequirements `json:"resources,omitempty"`
		Containers []container              `json:"containers"`
	}
	asked := spec{Resources: s.whole}
	for i := range s.containers {
		asked.Containers = append(asked.Containers, container{fmt.Sprintf("c%d", i), s.containers[i]})
	}
	patch := check.Value(json.Marshal(map[string]any{"spec": asked}))(t)
	if _, err := b.admin.CoreV1().Pods(b.name).Patch(t.Context(), pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatalf("resize %s: %v", pod, err)
	}
}

// resizeOver is nil if a client that waits for the end of a resize sees it.
func resizeOver(p *v1.Pod) error {
	if p.Status.ObservedGeneration < p.Generation {
		return fmt.Errorf("generation %d is observed, not %d", p.Status.ObservedGeneration, p.Generation)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
			return fmt.Errorf("%s %s %s", c.Type, c.Reason, c.Message)
		}
	}
	return ready(p)
}

// gave says what a pod that was resized is not shown to have.
func (s sizes) gave(p *v1.Pod) error {
	var problems error
	total := v1.ResourceList{}
	for i := range s.containers {
		has := &p.Status.ContainerStatuses[i]
		podspec.AddResources(total, s.containers[i].Requests)
		if !podspec.SameResources(has.AllocatedResources, s.containers[i].Requests) || !podspec.SameResources(has.Resources.Limits, s.containers[i].Limits) {
			problems = errors.Join(problems, fmt.Errorf("container %s was allocated %s and has the limits %s", has.Name,
				podspec.ResourceText(has.AllocatedResources), podspec.ResourceText(has.Resources.Limits)))
		}
	}
	if s.whole != nil {
		total = s.whole.Requests
		if r := p.Status.Resources; r == nil || !podspec.SameResources(r.Limits, s.whole.Limits) {
			problems = errors.Join(problems, fmt.Errorf("the pod has %v", r))
		}
	}
	if got := p.Status.AllocatedResources; !podspec.SameResources(got, total) {
		problems = errors.Join(problems, fmt.Errorf("the pod was allocated %s, want %s", podspec.ResourceText(got), podspec.ResourceText(total)))
	}
	return problems
}

// resizes are pods by name, and what they are given one after the other.
func resizes() map[string][]sizes {
	all := func(l ...v1.ResourceRequirements) sizes { return sizes{containers: l} }
	whole := func(s v1.ResourceRequirements, l ...v1.ResourceRequirements) sizes {
		return sizes{whole: &s, containers: l}
	}
	return map[string][]sizes{
		"opposite": {
			all(limits("50m", "64Mi"), limits("100m", "128Mi")),
			all(limits("100m", "128Mi"), limits("50m", "64Mi")),
			all(limits("50m", "160Mi"), limits("100m", "64Mi")),
		},
		"several": {
			all(limits("20m", "64Mi"), limits("30m", "64Mi"), limits("40m", "64Mi")),
			all(limits("40m", "96Mi"), limits("40m", "96Mi"), limits("50m", "96Mi")),
			all(limits("20m", "64Mi"), limits("30m", "96Mi"), limits("20m", "80Mi")),
		},
		"whole": {
			whole(limits("100m", "128Mi"), v1.ResourceRequirements{}),
			whole(limits("150m", "160Mi"), v1.ResourceRequirements{}),
			whole(limits("50m", "96Mi"), v1.ResourceRequirements{}),
		},
		"whole-and-containers": {
			whole(limits("100m", "128Mi"), limits("50m", "64Mi"), limits("50m", "64Mi")),
			whole(limits("120m", "192Mi"), limits("20m", "96Mi"), limits("60m", "64Mi")),
			whole(limits("100m", "160Mi"), limits("40m", "64Mi"), limits("20m", "96Mi")),
		},
	}
}

// TestResizeSaid: pods are resized while others start. At no time the API shows a resize as done that
// is not. What is in the way of one is said in the words that scripts look for: the kubelet's.
//
//tier:all a fault of the runtime, which scenarios have
func TestResizeSaid(t *testing.T) {
	t.Parallel()
	asKubelet(t, "resize-said", testResizeSaid)
}

func testResizeSaid(t *testing.T, b *bed, kubelet bool) {
	pods := resizes()
	for name, given := range pods {
		b.create(t, b.pod(name, given[0].spec))
	}
	for name, given := range pods {
		if err := given[0].gave(b.awaitPod(t, name, "is up", resizeOver)); err != nil {
			t.Errorf("pod %s, which was not resized yet: %v", name, err)
		}
	}
	a := b.audit(t)
	defer func() {
		hidden := a.hidden()
		if kubelet {
			t.Logf("the kubelet shows a resize as done that is not in %d versions: %v", len(hidden), hidden)
		} else if len(hidden) > 0 {
			t.Errorf("a resize is shown as done that is not: %v", hidden)
		}
	}()
	for i := range 5 {
		b.create(t, b.pod(fmt.Sprintf("beside-%d", i), nil))
	}
	for round := 1; round <= 2; round++ {
		for name, given := range pods {
			b.ask(t, name, given[round])
		}
		for name, given := range pods {
			p := b.awaitPod(t, name, fmt.Sprintf("was resized %d times", round), resizeOver)
			if err := given[round].gave(p); err != nil && !kubelet {
				t.Errorf("pod %s: the resize is over, but %v", name, err)
			}
		}
	}
	for name, given := range pods { // one while another is in progress
		b.ask(t, name, given[1])
		b.ask(t, name, given[0])
	}
	for name := range pods {
		b.awaitPod(t, name, "was resized again", resizeOver)
	}
	for i := range 5 {
		b.awaitPod(t, fmt.Sprintf("beside-%d", i), "is up", ready)
	}
	b.belowUsage(t, kubelet, pods)
}

// belowUsage asks for less memory than is in use, which is said, and then for what there was before.
func (b *bed) belowUsage(t *testing.T, kubelet bool, pods map[string][]sizes) {
	t.Helper()
	for name, words := range map[string]*regexp.Regexp{
		"opposite": regexp.MustCompile(`container "c0" memory limit \(10240\) below current usage \(\d+\)`),
		"whole":    regexp.MustCompile(`cannot decrease memory limits: .*attempting to set pod memory limit \(10240\) below current usage \(\d+\)`),
	} {
		was := pods[name][0]
		is := sizes{containers: append([]v1.ResourceRequirements(nil), was.containers...)}
		r := limits("50m", "10Ki")
		if name == "whole" {
			r = limits("100m", "10Ki")
			is.whole = &r
		} else {
			is.containers[0] = r
		}
		b.ask(t, name, is)
		p := b.awaitPod(t, name, "is told that more memory is in use than 10Ki", func(p *v1.Pod) error {
			err := resizeOver(p)
			if err == nil {
				return errors.New("the resize is over")
			}
			c := podstatus.FindCondition(p.Status.Conditions, v1.PodResizeInProgress)
			if c == nil || c.Reason != v1.PodReasonError || !words.MatchString(c.Message) {
				return err
			}
			return nil
		})
		t.Logf("pod %s: %v", name, resizeOver(p))
		b.await(t, "the event is there", func() error {
			list, err := b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
			if err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.Reason == "ResizeError" && strings.Contains(e.Message, "memory limit (10240) below current usage (") {
					return nil
				}
			}
			return errors.New("there is no event ResizeError in these words")
		})
		b.ask(t, name, was)
		p = b.awaitPod(t, name, "has again what it had", resizeOver)
		if err := was.gave(p); err != nil && !kubelet {
			t.Errorf("pod %s: the resize is over, but %v", name, err)
		}
	}
}

// hidden are the versions of pods that pass off a resize as done that is not.
func (a *auditor) hidden() (found []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		found = append(found, "the watch has ended: not all was seen")
	}
	for _, versions := range a.versions {
		for _, p := range versions {
			if why := podstatus.HiddenResize(p); why != "" {
				found = append(found, fmt.Sprintf("pod %s, version %s: %s", p.Name, p.ResourceVersion, why))
			}
		}
	}
	return found
}
