package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/shortage"
)

const (
	// calmPods are those beside the pod that takes all.
	calmPods = 20
	// evictionPatience is how long an agent has to evict a pod: much longer than any should need.
	evictionPatience = 2 * time.Minute
	// removalPatience is how long an agent has to remove all pods after that. Then they are ended without it.
	removalPatience = time.Minute
)

// short is one kind of shortage.
type short struct {
	// culprit is the name of the pod that takes all, what what it does.
	culprit, what string
	// settings are more lines of the agent's configuration.
	settings string
	// prepare, if not nil, changes a node before its agent starts.
	prepare func(*joined) error
	// level is how much is in use when pods are to be evicted, all how much there is, in bytes.
	level, all int64
	used       func(*joined) (int64, error)
	change     func(*v1.PodSpec)
	condition  v1.NodeConditionType
}

// variant is an agent with its settings.
type variant struct {
	name, settings string
	agent          member.Agent
}

// clusterHog compares what an agent does when a pod takes all memory of the pods.
func (b *bench) clusterHog(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	reserved := check.Must(shortage.Reserved())
	c := check.Must(b.clusterBed(ctx))
	s := short{
		culprit: "hog", what: fmt.Sprintf("memory hog beside %d pods, less than %d MiB of %d left → evicted", calmPods,
			shortage.MemoryThreshold/shortage.MiB, shortage.MemoryLimit/shortage.MiB),
		settings:  "enforceNodeAllocatable: [pods]\n" + shortage.MemorySettings(reserved),
		level:     shortage.MemoryLimit - shortage.MemoryThreshold,
		all:       shortage.MemoryLimit,
		used:      func(r *joined) (int64, error) { return shortage.Taken(r.lab.CgroupRoot()) },
		change:    func(p *v1.PodSpec) { p.Containers[0].Args = strings.Fields(shortage.Hog) },
		condition: v1.NodeMemoryPressure,
	}
	return c.compareShort(ctx, s, variant{name: kubeletName, agent: c.agent(kubeletName)},
		variant{"kubelet with kernelMemcgNotification", "kernelMemcgNotification: true\n", c.agent(kubeletName)},
		variant{name: troupeName, agent: c.agent(troupeName)})
}

// clusterFiller compares what an agent does when a pod without limits fills the node's disk.
func (b *bench) clusterFiller(ctx context.Context) ([]result, error) {
	c, err := b.clusterBed(ctx)
	if err != nil {
		return nil, err
	}
	s := short{
		culprit: "filler", what: fmt.Sprintf("disk filler beside %d pods, %d MiB per second, less than %d %% of %d MiB left → evicted",
			calmPods, shortage.FillRate, shortage.DiskShare, shortage.DiskSize),
		settings: shortage.DiskSettings(),
		prepare:  func(r *joined) error { return shortage.SmallDisk(r.Root()) },
		level:    shortage.DiskLevel,
		all:      shortage.DiskSize * shortage.MiB,
		used:     func(r *joined) (int64, error) { return shortage.DiskUsed(r.Root()) },
		change: func(p *v1.PodSpec) {
			shortage.InVolume(v1.EmptyDirVolumeSource{})(p)
			p.Containers[0].Args = strings.Fields(shortage.Fill)
		},
		condition: v1.NodeDiskPressure,
	}
	return c.compareShort(ctx, s, variant{name: kubeletName, agent: c.agent(kubeletName)}, variant{name: troupeName, agent: c.agent(troupeName)})
}

// compareShort measures a shortage with each variant in turns. The first is the kubelet, the last is ours.
func (c *bed) compareShort(ctx context.Context, s short, variants ...variant) ([]result, error) {
	load := loadAverage()
	took := make([]samples, len(variants))
	failed := make([]int, len(variants))
	calm := make([]string, len(variants))
	var details []string
	for i := range c.rounds {
		for k, v := range variants {
			o, err := c.shortOnce(ctx, s, v)
			if err != nil {
				return nil, err
			}
			if at, ok := o.acted(); ok {
				took[k] = append(took[k], at)
			} else {
				failed[k]++
			}
			for _, text := range []string{o.notEnded(), o.others(), o.notRemoved()} {
				if text == "" {
					continue
				}
				calm[k] += ", round " + fmt.Sprint(i+1) + ": " + text
				if k == len(variants)-1 {
					c.fault("%s: %s", s.what, text)
				}
			}
			details = append(details, fmt.Sprintf("%s, round %d: %s", v.name, i+1, o))
			c.say("  %s", details[len(details)-1])
		}
	}
	details = append(details, "load average of the machine when the row began: "+load)
	text := func(k int) string {
		t := "not within " + evictionPatience.String()
		if len(took[k]) > 0 {
			t = ms(took[k].median())
			if failed[k] > 0 {
				t += fmt.Sprintf(" (not in %d of %d rounds)", failed[k], c.rounds)
			}
		}
		return t + calm[k]
	}
	last := len(variants) - 1
	var theirs []string
	for k := range last {
		theirs = append(theirs, variants[k].name+" "+text(k))
	}
	r := result{
		section: shortages, what: s.what, bar: "sooner than the kubelet; no other pod is evicted or restarted",
		floor: strings.Join(theirs, "; "), measured: text(last), details: details,
	}
	holds := failed[last] == 0 && calm[last] == ""
	if len(took[0]) > 0 && len(took[last]) > 0 {
		r.ratio = times(took[last].median(), took[0].median())
		holds = holds && took[last].median() < took[0].median()
	}
	r.verdict = verdict(holds)
	return []result{r}, nil
}

// loadAverage is that of the last 1, 5 and 15 minutes.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(string(text))[:3], ", ")
}

// shortOnce makes a fresh node short, once.
func (c *bed) shortOnce(ctx context.Context, s short, v variant) (o *outcome, err error) {
	defer check.Return(&err)
	r := check.Must(c.prepare(v.agent))
	defer r.leave(&err)
	if s.prepare != nil {
		check.OK(s.prepare(r))
	}
	check.OK(r.Configure(v.agent, s.settings+v.settings))
	check.OK(r.Start())
	check.OK(r.awaitReady(ctx))
	pods := names("calm", calmPods)
	check.Must(r.start(ctx, nil, pods...))
	check.OK(sleep(ctx, 2*settle))
	w := check.Must(watchShortage(ctx, c.client, r.Node(), s.condition))
	defer w.stop()
	level := shortage.Watch(s.level, func() (int64, error) { return s.used(r) })
	defer level.Stop()
	check.Must(r.create(ctx, func(p *v1.Pod) { s.change(&p.Spec) }, s.culprit))
	check.OK(awaitShown(ctx, r, w, s.culprit))
	// What else happens then counts too.
	check.OK(sleep(ctx, 2*settle))
	o = &outcome{short: s, level: level.Seen()}
	if o.evicted, o.at, o.shown, err = w.seen(); err != nil {
		return nil, err
	}
	o.culprit, o.failed = r.seen.last(s.culprit)
	o.restarted = check.Must(r.restartedOf(pods))
	o.stuck = check.Must(r.removeWithin(ctx, removalPatience, append(pods, s.culprit)...))
	o.log, err = r.noSpace()
	return o, err
}

// noSpace is the first line of the agent's log that says that nothing can be written, without its time and paths.
func (r *joined) noSpace() (string, error) {
	text, err := os.ReadFile(r.LogFile())
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, syscall.ENOSPC.Error()) {
			continue
		}
		if _, after, is := strings.Cut(line, "] "); is { // klog's header
			line = after
		}
		return strings.TrimSpace(strings.ReplaceAll(line, r.Root(), "")), nil
	}
	return "", nil
}

// removeWithin deletes pods, and gives those that are not seen gone in time: leave ends them, without the agent.
func (r *joined) removeWithin(ctx context.Context, patience time.Duration, pods ...string) ([]string, error) {
	if err := r.delete(ctx, pods...); err != nil {
		return nil, err
	}
	late := lab.Eventually(ctx, patience, "all pods are gone", func() error {
		r.stuck = r.seen.there(pods...)
		if n := len(r.stuck); n > 0 {
			return fmt.Errorf("%d are left, the first is %s", n, r.stuck[0])
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if late != nil {
		r.say("  %v", late) // that is an outcome too
	}
	r.seen.drop(slices.DeleteFunc(pods, func(name string) bool { return slices.Contains(r.stuck, name) })...)
	return r.stuck, r.Running()
}

// awaitShown waits until a pod has failed and a pod's eviction is known, or the patience is over.
func awaitShown(ctx context.Context, r *joined, w *shortageWatcher, culprit string) error {
	var unexpected error
	late := lab.Eventually(ctx, evictionPatience, "a pod is evicted", func() error {
		evicted, _, shown, err := w.seen()
		if unexpected = err; err == nil {
			err = r.Running()
			unexpected = err
		}
		if unexpected != nil {
			return nil
		}
		if _, failed := r.seen.last(culprit); failed.IsZero() || len(evicted) == 0 || shown.IsZero() {
			return errors.New("it is not yet")
		}
		return nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if late != nil {
		r.say("  %v", late) // that is an outcome too
	}
	return unexpected
}

// last is the newest version of a pod that was seen, and when it was first seen to have failed.
func (w *watcher) last(name string) (p *v1.Pod, failed time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.pods[name]
	if h == nil {
		return nil, time.Time{}
	}
	failed, _ = h.first(func(v version) bool { return v.pod.Status.Phase == v1.PodFailed })
	return h.versions[len(h.versions)-1].pod, failed
}

// restartedOf are the pods whose program started more than once.
func (r *joined) restartedOf(pods []string) (restarted []string, err error) {
	for _, name := range pods {
		mark, err := node.ReadMark(r.marks, name)
		if err != nil {
			return nil, err
		}
		if mark.Starts > 1 {
			restarted = append(restarted, name)
		}
	}
	return restarted, nil
}
