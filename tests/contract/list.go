package contract

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

func testList(s *suite) {
	podA, boxA, idA := s.running(s.Forever)
	podB, boxB, idB := s.created(s.Forever)

	one := s.list(string(podB.UID))
	if len(one.Pods) != 1 || one.Pods[0].Ref.UID != podB.UID {
		s.Fatalf("the list of one pod is %+v", one)
	}
	all := s.list("")
	if !slices.IsSortedFunc(all.Pods, func(a, b observed.RuntimePod) int {
		return strings.Compare(string(a.Ref.UID), string(b.Ref.UID))
	}) {
		s.Error("the list is not in order of pod UID")
	}
	for _, want := range []struct {
		pod     *v1.Pod
		box, id string
		state   observed.ContainerState
	}{
		{podA, boxA, idA, observed.ContainerRunning},
		{podB, boxB, idB, observed.ContainerCreated},
	} {
		i := slices.IndexFunc(all.Pods, func(p observed.RuntimePod) bool { return p.Ref.UID == want.pod.UID })
		if i < 0 {
			s.Errorf("the list lacks pod %s", want.pod.Name)
			continue
		}
		of := all.Pods[i]
		ref := observed.PodRef{UID: want.pod.UID, Namespace: want.pod.Namespace, Name: want.pod.Name}
		if of.Ref != ref || len(of.Sandboxes) != 1 || of.Sandboxes[0].ID != want.box || of.Sandboxes[0].Pod != ref {
			s.Errorf("listed pod is %+v", of)
		}
		if len(of.Containers) != 1 || of.Containers[0].ID != want.id || of.Containers[0].State != want.state ||
			of.Containers[0].SandboxID != want.box || of.Containers[0].Pod != ref {
			s.Errorf("listed containers are %+v", of.Containers)
		}
	}
	if none := s.list("no-such-uid"); len(none.Pods) != 0 {
		s.Errorf("the list of a pod that is not there is %+v", none)
	}
}

// testRoundTrip: what a restarted agent needs to adopt a pod comes back.
func testRoundTrip(s *suite) {
	pod := s.pod(s.Forever)
	sandbox := s.run(pod, 5).noError()
	id := s.create(pod, sandbox, 9).noError()
	of := s.list(string(pod.UID)).Pods[0]
	box, c := of.Sandboxes[0], of.Containers[0]
	if box.Attempt != 5 || box.Source != "file" || box.Detailed || len(box.IPs) != 0 {
		s.Errorf("listed sandbox is %+v, want attempt 5 and source file and no details", box)
	}
	if c.Name != containerName || c.Attempt != 9 || c.SpecHash != specHash || c.Detailed {
		s.Errorf("listed container is %+v, want attempt 9 and hash %s and no details", c, specHash)
	}
	if got := s.sandboxStatus(sandbox).noError(); got.Attempt != 5 || got.Source != "file" {
		s.Errorf("inspected sandbox is %+v, want attempt 5 and source file", got)
	}
	c = s.status(id).noError()
	if c.Attempt != 9 || c.SpecHash != specHash || c.GraceSeconds != 7 || c.TerminationMessagePolicy != "File" {
		s.Errorf("inspected container is %+v, want attempt 9, hash %s, grace 7 and policy File", c, specHash)
	}
	var hook v1.LifecycleHandler
	if err := json.Unmarshal([]byte(c.PreStop), &hook); err != nil || hook.Sleep == nil || hook.Sleep.Seconds != 3 {
		s.Errorf("preStop is %q (%v), want sleep 3", c.PreStop, err)
	}
	if !strings.HasSuffix(c.LogPath, "/"+containerName+"/9.log") {
		s.Errorf("log path is %q, want it to end in /%s/9.log", c.LogPath, containerName)
	}
}
