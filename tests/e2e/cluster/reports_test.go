package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// report is a public report of what people saw with a kubelet. docs/parity/reports.md has them all.
type report struct {
	// at is its address, below github.com/kubernetes/kubernetes if it is only a number.
	at string
	// steps are what the reporter did, and what should have been seen. With after, the agent is killed then, and started
	// again, and after is what should be seen now.
	steps, after func(r *reported, t *testing.T)
	// wrong: kubelet v1.36.3 does still what was reported, when this was run.
	wrong bool
}

// reported is one report while it is tried.
type reported struct {
	*bed
	kubelet bool
	// pod is the name of its pod, dir a directory that its pods see as /f, manifests that of static pods.
	pod, dir, manifests string
	audit               *auditor
	// saw is what steps leave for after.
	saw *v1.Pod
}

// reports are by the name of their pod.
func reports() map[string]report {
	small, big, more := requests("100m", "64Mi"), requests("150m", "96Mi"), requests("100m", "96Mi")
	limited := func(r v1.ResourceRequirements, limits v1.ResourceList) v1.ResourceRequirements {
		r.Limits = limits
		return r
	}
	most := limits("500m", "256Mi").Limits
	onlyMemory := v1.ResourceList{v1.ResourceMemory: most[v1.ResourceMemory]}
	return map[string]report{
		"sleep-hook":      {at: "issues/134338", steps: (*reported).endsDuringItsSleepHook},
		"init-again":      {at: "issues/137710", steps: (*reported).losesItsSandbox, wrong: true}, // at times
		"no-limits":       {at: "issues/126388", steps: resized(small, big)},
		"memory-requests": {at: "issues/125559", steps: resized(limited(small, most), limited(more, most))},
		"no-cpu-limit":    {at: "issues/128977", steps: resized(limited(small, onlyMemory), limited(big, onlyMemory))},
		"ending":          {at: "pull/140882", steps: (*reported).isProbedWhileItEnds},
		"image-volume":    {at: "pull/138655", steps: (*reported).hasQuietImageVolume},
		"exit-rule":       {at: "pull/135031", steps: (*reported).restartsByRule},
		"adopted":         {at: "a label goes", steps: (*reported).losesTheLabel, after: (*reported).isAdopted, wrong: true},
		"another-map":     {at: "an immutable object is made again", steps: (*reported).hasAnotherMap, wrong: true},
		"by-part":         {at: "a file changes while pods start", steps: (*reported).changesWhileTheyStart},
		"event-version":   {at: "pull/134545", steps: (*reported).hasEventsOfVersion},
		"full":            {at: "cloud-ark/kubeplus/issues/1389", steps: (*reported).isFull, after: (*reported).isStillFull, wrong: true},
		"stays-ready":     {at: "issues/125397", steps: (*reported).becomesReady, after: (*reported).staysReady},
		"stays-unready":   {at: "issues/135795", steps: (*reported).runsUnready, after: (*reported).staysUnready},
		"starts-over":     {at: "issues/141155", steps: (*reported).startsOver, wrong: true},
		"starting":        {at: "issues/142305", steps: (*reported).isStarting, after: (*reported).staysUnready, wrong: true},
		"no-init-record":  {at: "pull/131317", steps: (*reported).losesItsInitRecord, after: (*reported).staysInitialized},
	}
}

// TestReports does what people did who reported bugs of kubelets, with both agents.
//
//tier:all the kubelet runs beside
func TestReports(t *testing.T) {
	t.Parallel()
	manifests := map[string]string{"troupe": t.TempDir(), "kubelet": t.TempDir()}
	onBoth(t, "reports", func(agent string) []string {
		return []string{
			"staticPodPath: " + manifests[agent],
			"containerLogMaxSize: 64Ki", "containerLogMonitorInterval: 3s", "containerLogMaxFiles: 50",
		}
	}, func(t *testing.T, b *bed, kubelet bool) {
		agent, all, tried := map[bool]string{true: "kubelet", false: "troupe"}[kubelet], reports(), map[string]*reported{}
		names, audit := slices.Sorted(maps.Keys(all)), b.audit(t)
		for _, name := range names {
			tried[name] = &reported{
				bed: b, kubelet: kubelet, pod: name, dir: t.TempDir(), manifests: manifests[agent], audit: audit,
			}
		}
		during := func(when string, of func(name string) func(*reported, *testing.T)) {
			t.Run(when, func(t *testing.T) {
				for _, name := range names {
					if f := of(name); f != nil && (!kubelet || !all[name].wrong) {
						t.Run(name, func(t *testing.T) {
							t.Parallel()
							t.Log(all[name].at)
							f(tried[name], t)
						})
					}
				}
			})
		}
		during("at first", func(name string) func(*reported, *testing.T) { return all[name].steps })
		check.Fatal(t, b.member.Kill(t.Context()))
		check.Fatal(t, b.member.Start())
		b.create(t, b.pod("later", nil))
		b.awaitPod(t, "later", "is ready", ready) // the agent does its work again
		during("after a restart", func(name string) func(*reported, *testing.T) {
			if tried[name].saw == nil {
				return nil
			}
			return all[name].after
		})
	})
}

// add makes the pod of a report, with the directory /f.
func (r *reported) add(t *testing.T, change ...func(*v1.PodSpec)) {
	t.Helper()
	p := r.bed.pod(r.pod, func(s *v1.PodSpec) {
		for _, f := range change {
			f(s)
		}
		s.Volumes = append(s.Volumes, volume("f", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: r.dir}}))
		for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				list[i].VolumeMounts = append(list[i].VolumeMounts, mounted("f"))
			}
		}
	})
	r.create(t, p)
}

// static makes a static pod of a report, and gives the name of its mirror.
func (r *reported) static(t *testing.T, spec string) string {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s}\nspec:\n%s", r.pod, r.name, spec)
	check.Fatal(t, os.WriteFile(filepath.Join(r.manifests, r.pod+".yaml"), []byte(text), 0o644))
	return r.pod + "-" + r.name
}

// file is a file of the directory /f.
func (r *reported) file(name string) string { return filepath.Join(r.dir, name) }

// touch makes one.
func (r *reported) touch(t *testing.T, name string) {
	t.Helper()
	check.Fatal(t, os.WriteFile(r.file(name), nil, 0o644))
}

// versions are those that the apiserver had of a pod.
func (a *auditor) versionsOf(uid types.UID) []*v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.versions[uid])
}

// requests are those of a container without limits.
func requests(cpu, memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: limits(cpu, memory).Limits}
}

// sinceStart is how long the first container of a pod has run.
func sinceStart(p *v1.Pod) time.Duration {
	if s := p.Status.ContainerStatuses; len(s) > 0 && s[0].State.Running != nil {
		return time.Since(s[0].State.Running.StartedAt.Time)
	}
	return 0
}

// words makes a probe or hook run steps of the program work.
func words(steps string) *v1.ExecAction {
	return &v1.ExecAction{Command: append([]string{"/work"}, strings.Fields(steps)...)}
}

// never is the policy of a pod that runs once.
func never(s *v1.PodSpec) { s.RestartPolicy = v1.RestartPolicyNever }
