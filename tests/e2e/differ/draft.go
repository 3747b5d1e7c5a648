package differ

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Case names a pod: a seed, and the features that are drawn from it. The same case is the same pod.
type Case struct {
	Seed     uint64
	Features []string
}

func (c Case) String() string { return fmt.Sprintf("%d:%s", c.Seed, strings.Join(c.Features, ",")) }

// ParseCase reads what String wrote. Without features they are those of the seed.
func ParseCase(text string) (Case, error) {
	var c Case
	number, names, given := strings.Cut(text, ":")
	if _, err := fmt.Sscan(number, &c.Seed); err != nil {
		return c, fmt.Errorf("case %q: want SEED or SEED:FEATURE,…: %w", text, err)
	}
	if !given {
		return Draw(c.Seed), nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if name == "" {
			continue
		}
		if !slices.ContainsFunc(features, func(f feature) bool { return f.name == name }) {
			return c, fmt.Errorf("case %q: no feature %q", text, name)
		}
		c.Features = append(c.Features, name)
	}
	return c, nil
}

// without is the case without some of its features.
func (c Case) without(drop ...string) Case {
	c.Features = slices.DeleteFunc(slices.Clone(c.Features), func(f string) bool { return slices.Contains(drop, f) })
	return c
}

// feature is something that a pod may have.
type feature struct {
	name string
	// percent of pods have it.
	percent int
	add     func(*draft)
}

// features are all, in the order in which they are added: containers before what they are given.
var features = slices.Concat(containerFeatures, podFeatures, environmentFeatures, volumeFeatures, securityFeatures, lifeFeatures)

// Draw chooses the features of a seed.
func Draw(seed uint64) Case {
	c := Case{Seed: seed}
	r := rand.New(rand.NewPCG(seed, 0))
	for _, f := range features {
		if r.IntN(100) < f.percent {
			c.Features = append(c.Features, f.name)
		}
	}
	return c
}

// Pod is a pod to be run on both nodes, and what is done with it.
type Pod struct {
	Case
	// Pod has hostPlace for a directory of the node's own.
	Pod *v1.Pod
	// Ephemeral containers are added when it is there.
	Ephemeral []v1.EphemeralContainer
	// Watch is how long it is looked at, at least.
	Watch time.Duration
}

// hostPlace stands for a directory of a node in paths.
const hostPlace = "/host-place"

// draft is a pod that is being made.
type draft struct {
	*rand.Rand
	Pod
	spec *v1.PodSpec
	// acts are what containers do after they have looked around, by name. before is what they print first.
	acts, before map[string]string
}

// Make makes the pod of a case. Each feature draws from a source of its own, so that a case without some features is the
// same pod without them.
func (c Case) Make() Pod {
	d := &draft{acts: map[string]string{}, before: map[string]string{}}
	d.Case, d.Watch = c, 5*time.Second
	d.Pod.Pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", c.Seed)}}
	d.spec = &d.Pod.Pod.Spec
	d.spec.TerminationGracePeriodSeconds = new(int64(2))
	d.spec.Containers = []v1.Container{{Name: "main"}}
	for _, f := range features {
		if slices.Contains(c.Features, f.name) {
			h := fnv.New64()
			h.Write([]byte(f.name))
			d.Rand = rand.New(rand.NewPCG(c.Seed, h.Sum64()))
			f.add(d)
		}
	}
	d.mend()
	d.finish()
	return d.Pod
}

// every is all containers that are there from the start.
func (d *draft) every(do func(*v1.Container)) {
	for i := range d.spec.InitContainers {
		do(&d.spec.InitContainers[i])
	}
	for i := range d.spec.Containers {
		do(&d.spec.Containers[i])
	}
}

// finish gives each container its image and what it does.
func (d *draft) finish() {
	d.every(func(c *v1.Container) {
		act := d.acts[c.Name]
		if act == "" && d.isPlainInit(c) {
			act = "exit 0"
		}
		// Whatever comes after a sidecar starts when an agent has seen it run.
		if c.RestartPolicy != nil && d.isInit(c) && ends.MatchString(act) {
			act = "sleep 3s then " + act
		}
		d.fill(c, act)
	})
	for i := range d.Ephemeral {
		c := v1.Container(d.Ephemeral[i].EphemeralContainerCommon)
		d.fill(&c, d.acts[c.Name])
		d.Ephemeral[i].EphemeralContainerCommon = v1.EphemeralContainerCommon(c)
	}
}

// ends are what a container does that ends by itself.
var ends = regexp.MustCompile(`^(sleep \S+ then )?exit`)

func (d *draft) isInit(c *v1.Container) bool {
	return slices.ContainsFunc(d.spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name })
}

func (d *draft) isPlainInit(c *v1.Container) bool { return c.RestartPolicy == nil && d.isInit(c) }

func (d *draft) fill(c *v1.Container, act string) {
	if c.Image == "" {
		c.Image = lab.WorkImage
	}
	if act == "" {
		act = "sleep"
	}
	if c.Image == missingImage {
		return
	}
	args := "see then " + act
	if before := d.before[c.Name]; before != "" {
		args = before + " then " + args
	}
	c.Args = strings.Fields(args)
}

// pick is one container of those from the start.
func (d *draft) pick() *v1.Container {
	n := d.IntN(len(d.spec.InitContainers) + len(d.spec.Containers))
	if n < len(d.spec.InitContainers) {
		return &d.spec.InitContainers[n]
	}
	return &d.spec.Containers[n-len(d.spec.InitContainers)]
}

// pickMain is one of the containers that are not init containers.
func (d *draft) pickMain() *v1.Container { return &d.spec.Containers[d.IntN(len(d.spec.Containers))] }

// pickLong is one that runs until it is stopped, and so may have probes and hooks.
func (d *draft) pickLong() *v1.Container {
	for range 10 {
		if c := d.pick(); !d.isPlainInit(c) {
			return c
		}
	}
	return d.pickMain()
}

// pickSecurity is a container's security context, which may be new.
func (d *draft) pickSecurity() *v1.SecurityContext {
	c := d.pick()
	if c.SecurityContext == nil {
		c.SecurityContext = &v1.SecurityContext{}
	}
	return c.SecurityContext
}

func (d *draft) podSecurity() *v1.PodSecurityContext {
	if d.spec.SecurityContext == nil {
		d.spec.SecurityContext = &v1.PodSecurityContext{}
	}
	return d.spec.SecurityContext
}

// one draws one of some.
func one[T any](d *draft, of ...T) T { return of[d.IntN(len(of))] }

// flip is true half of the time.
func (d *draft) flip() bool { return d.IntN(2) == 0 }
