package eviction

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func bytes(text string) Amount {
	q := resource.MustParse(text)
	return Amount{Quantity: &q}
}

func reading(available uint64) *Reading {
	return &Reading{Memory: Left{Available: available, Capacity: 1000, Known: true}}
}

// TestAssess: hard thresholds act at once, soft ones after their grace, and min reclaim keeps one met.
func TestAssess(t *testing.T) {
	p := Policy{Transition: 30 * time.Second, Thresholds: []Threshold{
		{Signal: MemoryAvailable, Value: bytes("100"), Hard: true, MinReclaim: bytes("50")},
		{Signal: MemoryAvailable, Value: Amount{Fraction: 0.3}, Grace: 10 * time.Second},
	}}
	var m Memory
	for _, c := range []struct {
		after     int
		available uint64
		want      string
	}{
		{0, 500, "false"}, {1, 250, "true"}, {5, 250, "true"}, {11, 250, "true soft"}, {12, 99, "true hard soft"},
		{13, 149, "true hard soft"}, {14, 150, "true soft"}, {15, 300, "true"}, {43, 400, "true"}, {44, 400, "false"},
	} {
		var shown Conditions
		var act []Shortage
		m, shown, act = p.Assess(m, reading(c.available), t0.Add(time.Duration(c.after)*time.Second))
		got := fmt.Sprint(shown.Memory)
		for _, s := range act {
			if s.Hard {
				got += " hard"
			} else {
				got += " soft"
			}
		}
		check.Equal(t, got, c.want, "after %d s with %d left", c.after, c.available)
	}
}

// TestTransition: a condition never ends sooner than the transition period after a threshold was met.
func TestTransition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{Transition: time.Minute, Thresholds: []Threshold{{Signal: MemoryAvailable, Value: bytes("100"), Hard: true}}}
		var m Memory
		now, last := t0, time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "readings") {
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
			left := rapid.Uint64Range(0, 300).Draw(t, "left")
			if left < 100 {
				last = now
			}
			var shown Conditions
			m, shown, _ = p.Assess(m, reading(left), now)
			if want := !last.IsZero() && now.Sub(last) < time.Minute; shown.Memory != want {
				t.Fatalf("at %v: pressure %v, last met at %v", now, shown.Memory, last)
			}
		}
	})
}

func pod(name string, priority int32, request string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{Priority: &priority,
		Containers: []v1.Container{{Name: "c"}}}}
	if request != "" {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	}
	return p
}

// TestChoose: pods over their request come first, then low priority, then the largest use beyond the request.
func TestChoose(t *testing.T) {
	use := func(bytes uint64) Use {
		return Use{Memory: bytes, Containers: []ContainerUse{{Name: "c", Memory: bytes}}}
	}
	for _, c := range []struct {
		name string
		pods []*v1.Pod
		uses []uint64
		want string
	}{
		{"over the request before low priority", []*v1.Pod{pod("low", 0, "1Mi"), pod("high", 9, "1Mi")},
			[]uint64{1 << 19, 2 << 20}, "high"},
		{"low priority before large use", []*v1.Pod{pod("low", 0, ""), pod("high", 9, "")}, []uint64{1 << 20, 9 << 20}, "low"},
		{"large use", []*v1.Pod{pod("a", 0, "1Mi"), pod("b", 0, "8Mi")}, []uint64{4 << 20, 9 << 20}, "a"},
		{"critical pods stay", []*v1.Pod{pod("a", 2000000000, ""), pod("b", 0, "8Mi")}, []uint64{4 << 20, 1}, "b"},
		{"nobody is left", []*v1.Pod{pod("a", 2000000000, "")}, []uint64{4 << 20}, ""},
	} {
		uses := make([]Use, len(c.uses))
		for i, n := range c.uses {
			uses[i] = use(n)
		}
		s := Shortage{Threshold: Threshold{Signal: MemoryAvailable, Hard: true}, Left: Left{Available: 50 << 20}, Quantity: 100 << 20}
		v, is := (&Policy{}).Choose(&s, &Reading{}, c.pods, uses, t0)
		if is != (c.want != "") || is && v.Pod.Name != c.want {
			t.Errorf("%s: %v %+v, want %s", c.name, is, v, c.want)
		}
		if c.want == "high" && v.Stop.Message != "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "+
			"Container c was using 2Mi, request is 1Mi, has larger consumption of memory. " {
			t.Errorf("%s", v.Stop.Message)
		}
		if is && (v.Stop.Grace != time.Second || v.Stop.Disruption == "" || !v.Stop.Fail) {
			t.Errorf("%s: %+v", c.name, v.Stop)
		}
	}
}

// TestChooseGrace: a soft threshold gives a pod no less time than a hard one, and no more than it may have.
func TestChooseGrace(t *testing.T) {
	for _, c := range []struct{ most, want time.Duration }{
		{0, time.Second}, {-time.Second, time.Second}, {10 * time.Second, 10 * time.Second}, {time.Hour, 30 * time.Second},
	} {
		s := Shortage{Threshold: Threshold{Signal: MemoryAvailable, Grace: time.Minute}}
		v, _ := (&Policy{MaxPodGrace: c.most}).Choose(&s, &Reading{}, []*v1.Pod{pod("a", 0, "")}, []Use{{}}, t0)
		check.Equal(t, v.Stop.Grace, c.want, "at most %v", c.most)
	}
}

// TestChooseOnDisks: what counts is on the file system that runs short. containerd does not say where layers are: they are
// beside the images.
func TestChooseOnDisks(t *testing.T) {
	node, images, layers := Disk{Device: "node"}, Disk{Device: "images"}, Disk{Device: "layers"}
	writer := func(layer, volume uint64) Use {
		return Use{Containers: []ContainerUse{{Name: "c", Layer: DiskUse{Bytes: layer, Inodes: layer}}}, Volumes: []VolumeUse{{Name: "v", DiskUse: DiskUse{Bytes: volume, Inodes: volume}}}}
	}
	pods, uses := []*v1.Pod{pod("layer", 0, ""), pod("volume", 0, "")}, []Use{writer(50, 0), writer(0, 50)}
	for _, c := range []struct {
		signal Signal
		on     Reading
		want   string
	}{
		{NodeFSAvailable, Reading{NodeFS: node, ImageFS: images}, "volume"},
		{ImageFSAvailable, Reading{NodeFS: node, ImageFS: images}, "layer"},
		{ImageFSInodesFree, Reading{NodeFS: node, ImageFS: images}, "layer"},
		{NodeFSInodesFree, Reading{NodeFS: node, ImageFS: images, ContainerFS: images}, "volume"},
		{ContainerFSAvailable, Reading{NodeFS: node, ImageFS: images, ContainerFS: layers}, "layer"},
		{NodeFSAvailable, Reading{NodeFS: node, ImageFS: images, ContainerFS: layers}, "volume"},
	} {
		s := Shortage{Threshold: Threshold{Signal: c.signal, Hard: true}}
		for _, turn := range []int{0, 1} { // the order of pods decides nothing
			p, u := []*v1.Pod{pods[turn], pods[1-turn]}, []Use{uses[turn], uses[1-turn]}
			if v, _ := (&Policy{}).Choose(&s, &c.on, p, u, t0); v.Pod == nil || v.Pod.Name != c.want {
				t.Errorf("%s on %+v: %+v, want %s", c.signal, c.on, v.Pod, c.want)
			}
		}
	}
	if one := (Reading{NodeFS: node}); uses[0].on(NodeFSAvailable, &one) != (DiskUse{Bytes: 50, Inodes: 50}) {
		t.Error("a runtime that says nothing has layers on the node's disk")
	}
}

// TestMessageQuantity: a threshold is told as it is configured.
func TestMessageQuantity(t *testing.T) {
	for _, c := range []struct {
		t    Threshold
		want string
	}{
		{Threshold{Signal: MemoryAvailable, Value: bytes("500M")}, "Threshold quantity: 500M, available: 1Ki. "},
		{Threshold{Signal: NodeFSInodesFree, Value: bytes("1500")}, "Threshold quantity: 1500, available: 1024. "},
		{Threshold{Signal: MemoryAvailable, Value: Amount{Fraction: 0.5}}, "Threshold quantity: 1Mi, available: 1Ki. "},
	} {
		s := Shortage{Threshold: c.t, Left: Left{Available: 1 << 10}, Quantity: 1 << 20}
		if got := s.message(pod("a", 0, ""), &Use{}); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestNotice: the kernel is asked about the next threshold that is not met.
func TestNotice(t *testing.T) {
	p := Policy{Thresholds: []Threshold{
		{Signal: MemoryAvailable, Value: bytes("100"), Hard: true}, {Signal: MemoryAvailable, Value: bytes("300"), Grace: time.Minute},
		{Signal: AllocatableMemoryAvailable, Value: Amount{Fraction: 0.5}, Hard: true}, {Signal: NodeFSAvailable, Value: bytes("900"), Hard: true},
	}}
	for _, c := range []struct{ memory, allocatable, want uint64 }{
		{500, 0, 300}, {300, 0, 300}, {299, 0, 100}, {100, 0, 100}, {99, 0, 0},
		{800, 450, 400}, {800, 400, 400}, {800, 399, 300}, {200, 800, 100}, {800, 50, 0},
	} {
		r := Reading{Memory: Left{Available: c.memory, Capacity: 1000, Known: true}}
		if c.allocatable > 0 {
			r.Allocatable = Left{Available: c.allocatable, Capacity: 800, Known: true}
		}
		if got, is := p.Notice(&r); got != c.want || is != (c.want > 0) {
			t.Errorf("%d and %d left: %d %v, want %d", c.memory, c.allocatable, got, is, c.want)
		}
	}
	if got, is := p.Notice(&Reading{}); is {
		t.Errorf("nothing is known: %d", got)
	}
	if !p.Notices() || (&Policy{Thresholds: p.Thresholds[3:]}).Notices() || (&Policy{Thresholds: p.Thresholds, NoNotices: true}).Notices() {
		t.Error("notices are about memory")
	}
}

// TestOverLimit: a volume, the pod, or a container is over its limit.
func TestOverLimit(t *testing.T) {
	size := resource.MustParse("100E")
	check.Equal(t, bytesOf(&size), math.MaxInt64, "the limit of a volume that is more than any disk has")
	size = resource.MustParse("10Mi")
	limited := func() *v1.Pod {
		p := pod("a", 0, "")
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}}
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("20Mi")}
		return p
	}
	for _, c := range []struct {
		volume, layer uint64
		want          string
	}{
		{10 << 20, 10 << 20, ""},
		{11 << 20, 0, `Usage of EmptyDir volume "v" exceeds the limit "10Mi". `},
		{9 << 20, 12 << 20, "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "},
	} {
		u := Use{Volumes: []VolumeUse{{Name: "v", DiskUse: DiskUse{Bytes: c.volume}}}, Containers: []ContainerUse{{Name: "c", Layer: DiskUse{Bytes: c.layer}}}}
		v, is := OverLimit(limited(), &u, t0)
		if is != (c.want != "") || v.Stop.Message != c.want || v.Stop.Disruption != "" || len(v.Annotations) > 0 {
			t.Errorf("%v %+v, want %s", is, v.Stop, c.want)
		}
	}
}

// TestOverLimitOfMany: a pod with n volumes and containers, each of which has a limit.
func TestOverLimitOfMany(t *testing.T) {
	most := v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("20Mi")}
	size := most[v1.ResourceEphemeralStorage]
	linear.Held(t, 1000, func(n int) func() {
		var u Use
		p := pod("a", 0, "")
		for i := range n {
			name := fmt.Sprint("v", i)
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
				Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}},
			})
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: most}})
			u.Volumes = append(u.Volumes, VolumeUse{Name: name})
			u.Containers = append(u.Containers, ContainerUse{Name: name})
		}
		return func() {
			_, over := OverLimit(p, &u, t0)
			check.Equal(t, over, false, "it is over a limit")
		}
	})
}

// TestLimitsOfContainers: each container and sidecar has its own limit, also where images have a disk of their own. Their
// sum is the limit of the pod only if each of them has one.
func TestLimitsOfContainers(t *testing.T) {
	const none = ""
	limits := func(name, most string) v1.Container {
		c := v1.Container{Name: name}
		if most != none {
			c.Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(most)}
		}
		return c
	}
	const over = `Container %s exceeded its local ephemeral storage limit "20Mi". `
	type of = [4]uint64
	for name, c := range map[string]struct {
		init, side, main, more string // limits
		used                   of     // in MiB
		want                   string
	}{
		"sidecar over its own": {"1Mi", "20Mi", "500Mi", "1Mi", of{0, 21, 0, 0}, fmt.Sprintf(over, "side")},
		"sidecar at its own":   {"1Mi", "20Mi", "500Mi", "1Mi", of{0, 20, 0, 0}, ""},
		"container over":       {none, "500Mi", "20Mi", "1Mi", of{0, 0, 21, 0}, fmt.Sprintf(over, "main")},
		"another has none":     {none, "1Mi", "20Mi", none, of{0, 0, 0, 60}, ""},
		"another limit is 0":   {none, "1Mi", "20Mi", "0", of{0, 0, 0, 60}, ""},
		"a sidecar has none":   {none, none, "20Mi", "20Mi", of{0, 60, 0, 0}, ""},
		"it has one beside":    {none, none, "20Mi", none, of{0, 60, 21, 60}, fmt.Sprintf(over, "main")},
		"only the sidecar has": {none, "20Mi", none, none, of{0, 21, 0, 0}, fmt.Sprintf(over, "side")},
		"the pod, all have": {none, "10Mi", "20Mi", "30Mi", of{31, 10, 20, 0},
			"Pod ephemeral local storage usage exceeds the total limit of containers 60Mi. "},
		"more than any disk has":         {none, "100E", "10E", "1e19", of{31, 10, 20, 50}, ""},
		"only an init container has one": {"20Mi", none, none, none, of{60, 0, 0, 0}, ""},
	} {
		p := pod("a", 0, "")
		always := v1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []v1.Container{limits("side", c.side), limits("init", c.init)}
		p.Spec.InitContainers[0].RestartPolicy = &always
		p.Spec.Containers = []v1.Container{limits("main", c.main), limits("more", c.more)}
		var u Use
		for i, container := range [...]string{"init", "side", "main", "more"} {
			u.Containers = append(u.Containers, ContainerUse{Name: container, Layer: DiskUse{Bytes: c.used[i] << 20}})
		}
		if v, is := OverLimit(p, &u, t0); is != (c.want != "") || v.Stop.Message != c.want {
			t.Errorf("%s: %v %q, want %q", name, is, v.Stop.Message, c.want)
		}
	}
}

// TestWait: the time to the next reading falls as a threshold nears.
func TestWait(t *testing.T) {
	p := Policy{Thresholds: []Threshold{{Signal: MemoryAvailable, Value: bytes("100"), Hard: true}}}
	for _, c := range []struct {
		before, now uint64
		want        time.Duration
	}{{1000, 1000, 9 * time.Second}, {300, 300, 2 * time.Second}, {100, 100, time.Second}, {110, 110, time.Second},
		{1000, 300, 500 * time.Millisecond}} {
		before, now := reading(c.before), reading(c.now)
		now.At = before.At.Add(time.Second)
		check.Equal(t, p.Wait(before, now), c.want, "from %d to %d", c.before, c.now)
	}
}

// TestWaitDisk: a small disk is looked at more often than a large one, as both can fill at the same rate.
func TestWaitDisk(t *testing.T) {
	p := Policy{Thresholds: []Threshold{{Signal: NodeFSAvailable, Value: Amount{Fraction: 0.1}, Hard: true}}}
	for _, c := range []struct {
		available, capacity uint64
		want                time.Duration
	}{{200 << 20, 200 << 20, time.Second}, {5 << 30, 10 << 30, 4 * time.Second}, {500 << 30, 1000 << 30, 10 * time.Second}} {
		r := &Reading{NodeFS: Disk{Bytes: Left{Available: c.available, Capacity: c.capacity, Known: true}}}
		check.Equal(t, p.Wait(&Reading{}, r), c.want, "%d of %d", c.available, c.capacity)
	}
}

// TestFreed: the removal of images helps only where images are.
func TestFreed(t *testing.T) {
	on := func(node, image, container string) *Reading {
		return &Reading{NodeFS: Disk{Device: node}, ImageFS: Disk{Device: image}, ContainerFS: Disk{Device: container}}
	}
	for _, c := range []struct {
		on      *Reading
		signals []Signal
	}{
		{on("a", "a", "a"), []Signal{NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable,
			ContainerFSInodesFree}},
		{on("a", "b", "b"), []Signal{ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable, ContainerFSInodesFree}},
		{on("a", "b", "a"), []Signal{ImageFSAvailable, ImageFSInodesFree}},
		{on("a", "", ""), []Signal{NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree, ContainerFSAvailable,
			ContainerFSInodesFree}},
	} {
		var got []Signal
		for _, s := range Signals() {
			if c.on.Freed(s) {
				got = append(got, s)
			}
		}
		check.Equal(t, fmt.Sprint(got), fmt.Sprint(c.signals), "%+v: %v, want %v", c.on, got, c.signals)
	}
}
