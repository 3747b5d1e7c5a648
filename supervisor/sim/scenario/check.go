package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// Limits of what a scenario may ask for. A world of this size needs the memory
// of a large machine; what is beyond is a slip of the pen.
const (
	MaxNodes = 100_000
	MaxPods  = 5_000_000
	MaxTime  = 366 * 24 * time.Hour
)

// RoomForPods is how many pods a node takes if nodes.pods does not say.
const RoomForPods = 110

type mistake struct{ field, message string }

// checker goes through the steps as the run will, and knows what is there.
type checker struct {
	mistakes []mistake
	given    Given
	// replicas are of the workloads that are there, made says which ever were.
	replicas map[string]int
	made     map[string]bool
	// behaviors are what each workload that is there was told, all steps together.
	behaviors map[string]map[string]string
	images    map[string]bool // that any step names
	// kinds are the workloads that are there, sizes what their volumes were expanded to.
	kinds map[string]*Create
	sizes map[string]resource.Quantity
	nodes int
	drawn bool
	// last is the earliest time that the next step can be at.
	last time.Duration
	// kind is what the nodes are.
	kind *Nodes
}

func (c *checker) add(field, format string, args ...any) {
	c.mistakes = append(c.mistakes, mistake{field, fmt.Sprintf(format, args...)})
}

func (f *File) check(g Given) []mistake {
	c := &checker{
		given: g, replicas: map[string]int{}, made: map[string]bool{}, behaviors: map[string]map[string]string{},
		kinds: map[string]*Create{}, sizes: map[string]resource.Quantity{}, images: f.named(g), nodes: f.Nodes.Count,
		kind: &f.Nodes,
	}
	if g.Nodes > 0 && g.Nodes <= MaxNodes {
		c.nodes = g.Nodes
	}
	if strings.TrimSpace(f.Name) == "" {
		c.add("name", "must be given: a short title")
	}
	c.count("nodes.count", f.Nodes.Count, 1, MaxNodes)
	c.positive("nodes.cpu", f.Nodes.CPU)
	c.positive("nodes.memory", f.Nodes.Memory)
	c.positive("nodes.bandwidth", f.Nodes.Bandwidth)
	if f.Nodes.Pods != nil {
		c.count("nodes.pods", *f.Nodes.Pods, 1, MaxPods)
	}
	for k, v := range sorted(f.Nodes.Labels) {
		if why := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(why) > 0 {
			c.add("nodes.labels["+k+"]", "%s", why[0])
		}
	}
	c.devices(&f.Nodes)
	c.drivers(&f.Nodes)
	known := map[string]bool{}
	for i, m := range f.Images {
		at := fmt.Sprintf("images[%d]", i)
		if m.Name == "" {
			c.add(at+".name", "must be given")
		} else if !c.image(at+".name", m.Name) {
			continue
		} else if known[m.Name] {
			c.add(at+".name", "image %s already exists", m.Name)
		}
		known[m.Name] = true
		c.positive(at+".size", &f.Images[i].Size)
	}
	if len(f.Steps) == 0 {
		c.add("steps", "must have at least one")
	}
	for i := range f.Steps {
		c.step(fmt.Sprintf("steps[%d]", i), &f.Steps[i])
	}
	return c.mistakes
}

// named are the images that pods of the run may have.
func (f *File) named(g Given) map[string]bool {
	out := map[string]bool{OwnImage: g.OwnPods}
	for i := range f.Steps {
		switch s := &f.Steps[i]; {
		case s.Create != nil:
			out[s.Create.Image] = true
		case s.Update != nil:
			out[s.Update.Image] = true
		}
	}
	return out
}

// Do is the name of what the step does, as in the file; empty if it is not
// exactly one thing.
func (s *Step) Do() string {
	v, found := reflect.ValueOf(s).Elem(), ""
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "at" || name == "-" || v.Field(i).IsNil() {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

func (c *checker) step(at string, s *Step) {
	do := s.Do()
	if do == "" {
		c.add(at, "must have exactly one of create, update, scale, delete, addNodes, cordon, uncordon, drain, fail, "+
			"recover, killAgent, stopPlugin, startPlugin, failDevices, healDevices, stopDriver, crashDriver, "+
			"startDriver, failAttach, healAttach, expand, outOfService, inService, apiserver, advance, wait, expect, always, "+
			"release")
		return
	}
	if s.At != nil {
		if c.duration(at+".at", *s.At, 0) && s.At.Duration < c.last {
			c.add(at+".at", "%v is before the step above, which is at %v or later", s.At.Duration, c.last)
		}
		c.last = max(c.last, s.At.Duration)
	}
	at += "." + do
	switch {
	case s.Create != nil:
		c.create(at, s.Create)
	case s.Update != nil:
		c.update(at, s.Update)
	case s.Scale != nil:
		c.there(at+".workload", s.Scale.Workload)
		c.count(at+".replicas", s.Scale.Replicas, 0, MaxPods)
		c.replicas[s.Scale.Workload] = s.Scale.Replicas
	case s.Delete != nil:
		c.there(at+".workload", s.Delete.Workload)
		delete(c.replicas, s.Delete.Workload)
		delete(c.behaviors, s.Delete.Workload)
		c.deletes(at, s.Delete)
	case s.AddNodes != nil:
		c.count(at+".count", s.AddNodes.Count, 1, MaxNodes)
		c.nodes += s.AddNodes.Count
	case s.Cordon != nil:
		c.ofNodes(at, s.Cordon)
	case s.Uncordon != nil:
		c.ofNodes(at, s.Uncordon)
	case s.Drain != nil:
		c.ofNodes(at, s.Drain)
	case s.Fail != nil:
		c.ofNodes(at, s.Fail)
	case s.Recover != nil:
		c.ofNodes(at, s.Recover)
	case s.KillAgent != nil:
		c.ofNodes(at, s.KillAgent)
	case s.StopPlugin != nil:
		c.ofDevices(at, s.StopPlugin, false)
	case s.StartPlugin != nil:
		c.ofDevices(at, s.StartPlugin, false)
	case s.FailDevices != nil:
		c.ofDevices(at, s.FailDevices, true)
	case s.HealDevices != nil:
		c.ofDevices(at, s.HealDevices, true)
	case s.APIServer != nil:
		c.duration(at+".outage", s.APIServer.Outage, time.Millisecond)
	case s.Advance != nil:
		if c.duration(at, *s.Advance, time.Nanosecond) {
			c.last = min(c.last+s.Advance.Duration, MaxTime)
		}
	case s.Wait != nil:
		c.condition(at, &s.Wait.Condition)
		c.duration(at+".within", s.Wait.Within, time.Nanosecond)
	case s.Expect != nil:
		c.condition(at, s.Expect)
	case s.Always != nil:
		c.condition(at, s.Always)
	case s.Release != nil:
		c.everMade(at+".workload", s.Release.Workload)
	default:
		c.onVolumes(at, s)
	}
}

func (c *checker) create(at string, w *Create) {
	if why := validation.IsDNS1123Label(w.Workload); len(why) > 0 {
		c.add(at+".workload", "%q: %s", w.Workload, why[0])
	} else if c.given.OwnPods && w.Workload == OwnWorkload {
		c.add(at+".workload", "%s is used by --pods-per-node: choose another name", w.Workload)
	} else if _, ok := c.replicas[w.Workload]; ok {
		c.add(at+".workload", "%s already exists: use scale or update", w.Workload)
	}
	c.count(at+".replicas", w.Replicas, 0, MaxPods)
	c.replicas[w.Workload], c.made[w.Workload] = w.Replicas, true
	c.stateful(at, w)
	if w.Image == "" {
		c.add(at+".image", "must be given, like web:v1")
	} else {
		c.image(at+".image", w.Image)
	}
	c.positive(at+".cpu", w.CPU)
	c.positive(at+".memory", w.Memory)
	c.positive(at+".memoryLimit", w.MemoryLimit)
	if w.Memory != nil && w.MemoryLimit != nil && w.MemoryLimit.Cmp(*w.Memory) < 0 {
		c.add(at+".memoryLimit", "%s is less than memory, %s", w.MemoryLimit, w.Memory)
	}
	for name, n := range sorted(w.Devices) {
		field := at + ".devices[" + name + "]"
		if c.served(field, name) {
			c.count(field, n, 1, c.kind.Devices[name].Count)
		}
	}
	if w.Guaranteed && (w.CPU == nil || w.Memory == nil) {
		c.add(at+".guaranteed", "needs cpu and memory")
	}
	switch w.RestartPolicy {
	case "", v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever:
	default:
		c.add(at+".restartPolicy", "%q: must be Always, OnFailure or Never", w.RestartPolicy)
	}
	if w.GracePeriod != nil {
		c.duration(at+".gracePeriod", *w.GracePeriod, 0)
	}
	c.behavior(at+".behavior", w.Workload, w.Behavior)
	if w.Readiness != nil {
		c.duration(at+".readiness", *w.Readiness, time.Second)
	}
}

func (c *checker) update(at string, u *Update) {
	c.there(at+".workload", u.Workload)
	if u.Image == "" && len(u.Behavior) == 0 {
		c.add(at, "changes nothing: set image or behavior")
	}
	if u.Image != "" {
		c.image(at+".image", u.Image)
	}
	c.behavior(at+".behavior", u.Workload, u.Behavior)
	if w := c.kinds[u.Workload]; w != nil && w.Kind == StatefulSet && (u.MaxSurge != nil || u.MaxUnavailable != nil) {
		c.add(at, "%s is a StatefulSet, which replaces one pod at a time: leave out maxSurge and maxUnavailable", u.Workload)
	}
	surge := c.share(at+".maxSurge", u.MaxSurge, c.replicas[u.Workload], true)
	missing := c.share(at+".maxUnavailable", u.MaxUnavailable, c.replicas[u.Workload], false)
	if v := u.MaxUnavailable; v != nil && v.Type == intstr.String {
		if percent, err := intstr.GetScaledValueFromIntOrPercent(v, 100, false); err == nil && percent > 100 {
			c.add(at+".maxUnavailable", "%s: must be at most 100%%", v.StrVal)
		}
	}
	if u.MaxSurge != nil && u.MaxUnavailable != nil && surge == 0 && missing == 0 {
		c.add(at+".maxUnavailable", "0, and maxSurge is 0 as well: no pod could ever be replaced")
	}
}

// behavior asks the runtime that will read it: key by key, and then all that the
// workload was told by now, together.
func (c *checker) behavior(field, workload string, what map[string]string) {
	all := c.behaviors[workload]
	if all == nil {
		all = map[string]string{}
		c.behaviors[workload] = all
	}
	good := true
	for k, v := range sorted(what) {
		if v == "" && simcri.KnownKey(k) {
			delete(all, k) // takes it away
			continue
		}
		if err := simcri.CheckKey(k, v); err != nil {
			c.add(field+"["+k+"]", "%v", err)
			good = false
			continue
		}
		all[k] = v
	}
	if good && len(what) > 0 {
		if err := simcri.CheckKeys(all); err != nil {
			c.add(field, "%v", err)
		}
	}
}

// image reports whether it is the name of one.
func (c *checker) image(field, name string) bool {
	_, err := imagepull.ParseReference(name)
	if err != nil {
		c.add(field, "%v", err)
	}
	return err == nil
}

// share is a number or a percentage of n.
func (c *checker) share(field string, v *intstr.IntOrString, n int, up bool) int {
	if v == nil {
		return 0
	}
	got, err := intstr.GetScaledValueFromIntOrPercent(v, n, up)
	if err != nil || got < 0 {
		c.add(field, "%s: must be a number or a percentage, like 3 or 25%%", v.String())
	}
	return got
}

func (c *checker) condition(at string, k *Condition) {
	c.everMade(at+".workload", k.Workload)
	if k.Image != "" && !c.images[k.Image] {
		c.add(at+".image", "%s: no step uses this image", k.Image)
	}
	for reason := range sorted(k.Waiting) {
		if !slices.Contains(waitingReasons, reason) {
			c.add(at+".waiting["+reason+"]", "unknown waiting reason; the reasons are %s", strings.Join(waitingReasons, ", "))
		}
	}
	if k.OfVolumes() && len(c.kind.CSI) == 0 {
		c.add(at, "there are no volumes: name a CSI driver in nodes.csi")
	}
	if k.Pods == nil && k.Running == nil && k.Ready == nil && k.Succeeded == nil && k.Failed == nil &&
		k.Terminating == nil && k.Restarts == nil && len(k.Waiting) == 0 && !k.OfVolumes() && k.NodesReady == nil {
		c.add(at, "has no condition: set at least one of pods, running, ready, succeeded, failed, terminating, restarts, "+
			"waiting, attached, bound, resizing, nodesReady")
	}
}

func (c *checker) ofNodes(at string, n *OfNodes) {
	given := 0
	if len(n.Nodes) > 0 {
		given++
	}
	if n.Count != 0 {
		given++
		c.count(at+".count", n.Count, 1, c.nodes)
		c.drawn = true
	}
	if n.Same {
		given++
		if !c.drawn {
			c.add(at+".same", "no step above selects nodes by count")
		}
	}
	if given != 1 {
		c.add(at, "must have exactly one of nodes, count, same")
	}
	for i, name := range n.Nodes {
		var k int
		if _, err := fmt.Sscanf(name, "n%05d", &k); err != nil || NodeName(k) != name || k >= c.nodes {
			c.add(fmt.Sprintf("%s.nodes[%d]", at, i), "%q: unknown node; the nodes are %s to %s", name, NodeName(0),
				NodeName(c.nodes-1))
		}
	}
}

// NodeName is the name of the i-th node.
func NodeName(i int) string { return fmt.Sprintf("n%05d", i) }

// waitingReasons are what a status shows that a container waits for.
var waitingReasons = []string{
	"ContainerCreating", "PodInitializing", "CrashLoopBackOff",
	imagepull.ErrImagePull, imagepull.ImagePullBackOff, imagepull.ErrImageNeverPull, imagepull.InvalidImageName,
	imagepull.ImageInspectError, imagepull.RegistryUnavailable,
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError",
}

// everMade is of conditions, which may be about a workload that was deleted: its
// pods go slowly.
func (c *checker) everMade(field, workload string) {
	if workload != "" && !c.made[workload] {
		c.add(field, "%s was not created by a step above", workload)
	}
}

func (c *checker) there(field, workload string) {
	if workload == "" {
		c.add(field, "must be given")
	} else if _, ok := c.replicas[workload]; !ok && c.made[workload] {
		c.add(field, "%s was deleted by a step above", workload)
	} else if !ok {
		c.add(field, "%s was not created by a step above", workload)
	}
}

func (c *checker) count(field string, n, least, most int) {
	if n < least || n > most {
		c.add(field, "%d: must be from %d to %d", n, least, most)
	}
}

func (c *checker) positive(field string, q *resource.Quantity) {
	if q != nil && q.Sign() <= 0 {
		c.add(field, "%s: must be greater than 0", q)
	}
}

func (c *checker) duration(field string, d metav1.Duration, least time.Duration) bool {
	if d.Duration < least || d.Duration > MaxTime {
		c.add(field, "%v: must be from %v to %v", d.Duration, least, MaxTime)
		return false
	}
	return true
}
