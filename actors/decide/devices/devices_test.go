package devices_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/tests/check"
)

const gpu v1.ResourceName = "example.com/gpu"

// gpus is an inventory of GPUs, such as "a@0 b@1 -c": c is not healthy, and near to no node.
func gpus(list string, o devices.Options) devices.Inventory {
	r := &devices.Resource{Served: true, Options: o}
	for _, text := range strings.Fields(list) {
		name, node, placed := strings.Cut(text, "@")
		d := devices.Device{ID: strings.TrimPrefix(name, "-"), Healthy: name[0] != '-'}
		if placed {
			d.Nodes = []int64{int64(node[0] - '0')}
		}
		r.Devices = append(r.Devices, d)
	}
	return devices.Inventory{gpu: r}
}

// needs is a pod with a container for each number of GPUs; those of init containers begin with "init", of sidecars with "side".
func needs(uid string, counts ...string) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	for i, text := range counts {
		kind, n, special := strings.Cut(text, " ")
		if !special {
			n = kind
		}
		c := v1.Container{Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Limits: v1.ResourceList{gpu: resource.MustParse(n)}}}
		if !special {
			p.Spec.Containers = append(p.Spec.Containers, c)
			continue
		}
		if kind == "side" {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// given is what pods have, such as "p:c0=a,b".
func given(texts ...string) devicestate.Grants {
	out := devicestate.Grants{}
	for _, text := range texts {
		who, ids, _ := strings.Cut(text, "=")
		uid, container, _ := strings.Cut(who, ":")
		if out[types.UID(uid)] == nil {
			out[types.UID(uid)] = map[string][]devicestate.Grant{}
		}
		out[types.UID(uid)][container] = []devicestate.Grant{{
			Resource: gpu, IDs: map[int64][]string{devicestate.NoNUMA: strings.Split(ids, ",")},
		}}
	}
	return out
}

// take takes the devices of all containers, from some nodes.
func take(p *devices.Placing, pod *v1.Pod, affinity topology.Nodes) string {
	for _, group := range topology.Groups("container", &pod.Spec) {
		p.Hints(group)
		if why := p.Take(group[0], topology.Hint{Nodes: affinity}); why != nil {
			return why.Reason + ": " + why.Message
		}
	}
	var out []string
	got := p.Result()
	for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
		name := fmt.Sprint("c", i)
		if ids := got.IDs(devices.Key{Container: name, Resource: gpu}); len(ids) > 0 {
			out = append(out, name+"="+strings.Join(ids, ","))
		}
	}
	for _, q := range got.Ask {
		out = append(out, fmt.Sprintf("asks %s for %d of %v with %v", q.Container, q.Size, q.Available, q.Must))
	}
	return strings.Join(out, " ")
}

func TestTake(t *testing.T) {
	prefers := devices.Options{Preferred: true}
	unserved := gpus("a", devices.Options{})
	unserved[gpu].Served = false
	for _, c := range []struct {
		name     string
		inv      devices.Inventory
		given    devicestate.Grants
		answers  map[devices.Key][]string
		pod      *v1.Pod
		affinity topology.Nodes
		runs     bool
		down     []string
		unknown  string
		want     string
	}{
		{name: "in order", inv: gpus("a b c", devices.Options{}), pod: needs("p", "2"), want: "c0=a,b"},
		{name: "not those of others", inv: gpus("a b c", devices.Options{}), given: given("q:c0=a"), pod: needs("p", "2"), want: "c0=b,c"},
		{name: "only healthy ones", inv: gpus("-a b", devices.Options{}), pod: needs("p", "1"), want: "c0=b"},
		{
			name: "too few", inv: gpus("-a b", devices.Options{}), pod: needs("p", "2"),
			want: "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for example.com/gpu. " +
				"Requested: 2, Available: 1, which is unexpected",
		},
		{
			name: "nobody serves them", inv: unserved, pod: needs("p", "1"),
			want: `UnexpectedAdmissionError: container "c0": resources.limits[example.com/gpu]: 1 requested, but no device plugin serves it on this node`,
		},
		{name: "what it has stays", inv: gpus("a b c", devices.Options{}), given: given("p:c0=c"), pod: needs("p", "1", "1"), want: "c0=c c1=a"},
		{name: "also without the plugin", inv: unserved, given: given("p:c0=z"), pod: needs("p", "1"), want: "c0=z"},
		{
			name: "what it has is not healthy any more", inv: gpus("-a b", devices.Options{}), given: given("p:c0=a"), pod: needs("p", "1"),
			want: "UnexpectedAdmissionError: Allocate failed due to previously allocated devices are no longer healthy; " +
				"cannot allocate unhealthy devices example.com/gpu: a, which is unexpected",
		},
		{
			name: "or not there", inv: gpus("b", devices.Options{}), given: given("p:c0=z"), pod: needs("p", "1"),
			want: "UnexpectedAdmissionError: Allocate failed due to previously allocated devices are no longer healthy; " +
				"cannot allocate unhealthy devices example.com/gpu: z, which is unexpected",
		},
		{name: "it runs with it", inv: gpus("b", devices.Options{}), given: given("p:c0=z"), runs: true, pod: needs("p", "1"), want: "c0=z"},
		{name: "it runs, and nobody knows with which", inv: gpus("a", devices.Options{}), runs: true, pod: needs("p", "1"), unknown: "c0"},
		{
			name: "the same, and nothing of one container lives", inv: gpus("a b c", devices.Options{}), given: given("q:c0=a"), runs: true,
			down: []string{"c1"}, pod: needs("p", "1", "1"), want: "c1=b", unknown: "c0",
		},
		{
			name: "there are none for it", inv: gpus("a", devices.Options{}), given: given("q:c0=a"), runs: true,
			down: []string{"c0"}, pod: needs("p", "1"), unknown: "c0",
		},
		{name: "nor a plugin", inv: unserved, runs: true, down: []string{"c0"}, pod: needs("p", "1"), unknown: "c0"},
		{
			name: "what it has is not healthy any more, and nothing of it lives", inv: gpus("-a b", devices.Options{}), given: given("p:c0=a"),
			runs: true, down: []string{"c0"}, pod: needs("p", "1"), want: "c0=a",
		},
		{name: "those of init containers again", inv: gpus("a b c", devices.Options{}), pod: needs("p", "init 2", "1", "2"), want: "c0=a,b c1=a c2=b,c"},
		{name: "not those of sidecars", inv: gpus("a b", devices.Options{}), pod: needs("p", "side 1", "1"), want: "c0=a c1=b"},
		{name: "near ones first", inv: gpus("a@0 b@1 c@1 d", devices.Options{}), pod: needs("p", "3"), affinity: topology.NodesOf(1), want: "c0=a,b,c"},
		{
			name: "the plugin is asked", inv: gpus("a b c", prefers), pod: needs("p", "2"),
			want: "c0=a,b asks c0 for 2 of [a b c] with []",
		},
		{
			name: "and has answered", inv: gpus("a b c", prefers), pod: needs("p", "2"), want: "c0=a,c",
			answers: map[devices.Key][]string{{Container: "c0", Resource: gpu}: {"c", "nonsense", "c"}},
		},
		{name: "there is no choice", inv: gpus("a b", prefers), pod: needs("p", "2"), want: "c0=a,b"},
		{
			name: "asked among near ones", inv: gpus("a@0 b@1 c@1 d@1", prefers), pod: needs("p", "2"), affinity: topology.NodesOf(1),
			want: "c0=b,c asks c0 for 2 of [b c d] with []",
		},
		{
			name: "asked beyond near ones", inv: gpus("a@0 b@0 c@1", prefers), pod: needs("p", "2"), affinity: topology.NodesOf(1),
			want: "c0=a,c asks c0 for 2 of [a b c] with [c]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := devices.Place(c.inv, c.given, c.pod, c.answers, []int{0, 1})
			p.Keep, p.Down = c.runs, c.down
			check.Equal(t, take(p, c.pod, c.affinity), c.want, "it")
			unknown := slices.Sorted(maps.Keys(p.Unknown()))
			check.Equal(t, strings.Join(unknown, " "), c.unknown, "nobody knows the devices of")
		})
	}
}

func TestHints(t *testing.T) {
	for _, c := range []struct{ name, devices, given, need, want string }{
		{"without nodes", "a b", "q:c0=", "1", "[] preferred"},
		{"one node is enough", "a@0 b@1", "q:c0=", "1", "[0] preferred, [1] preferred, [0 1]"},
		{"that of the free one", "a@0 b@1", "q:c0=a", "1", "[1] preferred, [0 1]"},
		{"both", "a@0 b@1", "q:c0=", "2", "[0 1] preferred"},
		{"one could have them", "a@0 b@0 c@1", "q:c0=a", "2", "[0 1]"},
		{"too few", "a@0", "q:c0=a", "1", "[]"},
		{"what it has", "a@0 b@1", "p:c0=b", "1", "[1] preferred, [0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := needs("p", c.need)
			p := devices.Place(gpus(c.devices, devices.Options{}), given(c.given), pod, nil, []int{0, 1})
			var out []string
			for _, list := range p.Hints([]*v1.Container{&pod.Spec.Containers[0]}) {
				for _, h := range list {
					text := fmt.Sprint(h.Nodes.List())
					if h.Preferred {
						text += " preferred"
					}
					out = append(out, text)
				}
			}
			check.Equal(t, strings.Join(out, ", "), c.want, "it")
		})
	}
}

// hintsOf are the hints for the first container of a pod that needs n devices.
func hintsOf(inv devices.Inventory, n string, nodes ...int) [][]topology.Hint {
	pod := needs("p", n)
	return devices.Place(inv, nil, pod, nil, nodes).Hints([]*v1.Container{&pod.Spec.Containers[0]})
}

// TestNodesThatAPluginInvents are ignored.
func TestNodesThatAPluginInvents(t *testing.T) {
	inv := gpus("a b", devices.Options{})
	for _, node := range []int64{64, -1, 2, 1 << 40} {
		inv[gpu].Devices[0].Nodes = []int64{node}
		check.Equal(t, fmt.Sprint(hintsOf(inv, "1", 0, 1)), fmt.Sprint([][]topology.Hint{topology.Any()}), "node %d", node)
		inv[gpu].Devices[1].Nodes = []int64{1, node}
		check.Equal(t, fmt.Sprint(hintsOf(inv, "1", 0, 1, 64, -1)), "[[{2 true} {3 false}]]", "nodes 1 and %d", node)
		inv[gpu].Devices[1].Nodes = nil
	}
}

// TestHintsOnLargeMachines: there are as many as can be merged, also with devices near to each of 64 nodes.
func TestHintsOnLargeMachines(t *testing.T) {
	var nodes []int
	for i := range 64 {
		nodes = append(nodes, i)
	}
	inv := gpus("a@0 b@1", devices.Options{})
	check.Equal(t, fmt.Sprint(hintsOf(inv, "2", nodes...)), "[[{3 true}]]", "of two nodes that have devices")
	inv[gpu].Devices = nil
	for i := range 64 {
		inv[gpu].Devices = append(inv[gpu].Devices, devices.Device{ID: fmt.Sprintf("%02d", i), Healthy: true, Nodes: []int64{int64(i)}})
	}
	one, two := hintsOf(inv, "1", nodes...)[0], hintsOf(inv, "2", nodes...)[0]
	if len(one) != 65 || !one[0].Preferred || one[0].Nodes != topology.NodesOf(0) || one[64].Preferred {
		t.Errorf("for one device: %v", one)
	}
	if len(two) != 1 || two[0].Nodes.Size() != 64 || !two[0].Preferred {
		t.Errorf("for two devices: %v", two)
	}
}

// TestNoDeviceTwice: over random sequences of pods, no device is that of two pods, and what a pod has stays.
func TestNoDeviceTwice(t *testing.T) {
	placed := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 14))
		var list []string
		for i := range 2 + random.IntN(14) {
			list = append(list, []string{"", "-"}[random.IntN(5)/4]+string(rune('a'+i))+[]string{"", "@0", "@1"}[random.IntN(3)])
		}
		inv, all, pods := gpus(strings.Join(list, " "), devices.Options{}), devicestate.Grants{}, map[types.UID]*v1.Pod{}
		for step := range 60 {
			pod := needs(fmt.Sprint("p", step), fmt.Sprintf("init %d", random.IntN(4)), fmt.Sprint(random.IntN(4)), fmt.Sprint(random.IntN(3)))
			p := devices.Place(inv, all, pod, nil, []int{0, 1})
			if text := take(p, pod, topology.Nodes(random.IntN(4))); !strings.HasPrefix(text, "Unexpected") {
				all[pod.UID], pods[pod.UID] = p.Result().Own, pod
				placed++
			}
			for uid, old := range pods { // order-free: each on its own
				again := devices.Place(inv, all, old, nil, []int{0, 1})
				if take(again, old, 0); len(again.Result().Fresh) > 0 {
					t.Fatalf("seed %d: %s gets %v once more", seed, uid, again.Result().Fresh)
				}
			}
			owner := map[string]types.UID{}
			for uid, containers := range all { // order-free: each on its own
				for _, grants := range containers { // order-free: each on its own
					for _, g := range grants {
						for _, id := range g.All() {
							if of, has := owner[id]; has && of != uid {
								t.Fatalf("seed %d: %s is that of %s and %s", seed, id, of, uid)
							}
							owner[id] = uid
						}
					}
				}
			}
			if random.IntN(3) == 0 {
				gone := types.UID(fmt.Sprint("p", random.IntN(step+1)))
				delete(all, gone)
				delete(pods, gone)
			}
		}
	}
	check.AtLeast(t, placed, 500, "only %d pods were placed", placed)
}

func TestGivenFor(t *testing.T) {
	answer := func(r *api.ContainerAllocateResponse) []byte {
		return check.Value(proto.Marshal(r))(t)
	}
	grants := []devicestate.Grant{
		{Resource: "example.com/nic", IDs: map[int64][]string{0: {"n"}}, Response: answer(&api.ContainerAllocateResponse{
			Envs: map[string]string{"A": "nic", "N": "1"}, Mounts: []*api.Mount{{ContainerPath: "/x", HostPath: "/nic"}},
			Annotations: map[string]string{"k": "nic"},
		})},
		{Resource: gpu, IDs: map[int64][]string{0: {"b"}, 1: {"a", "b"}}, Response: answer(&api.ContainerAllocateResponse{
			Envs: map[string]string{"A": "gpu"}, Mounts: []*api.Mount{{ContainerPath: "/x", HostPath: "/gpu", ReadOnly: true}},
			Devices:     []*api.DeviceSpec{{ContainerPath: "/dev/g", HostPath: "/dev/gpu0", Permissions: "mrw"}},
			CdiDevices:  []*api.CDIDevice{{Name: "example.com/gpu=0"}, {Name: "example.com/gpu=0"}},
			Annotations: map[string]string{"k": "gpu"},
		})},
	}
	g := check.Value(devices.GivenFor(grants))(t)
	want := "{[{A gpu} {N 1}] [{/x /gpu true}] [{/dev/g /dev/gpu0 mrw}] map[k:gpu] [example.com/gpu=0] " +
		"[{example.com/gpu [a b]} {example.com/nic [n]}]}"
	check.Equal(t, fmt.Sprint(*g), want, "it")
	if g, err := devices.GivenFor(nil); g != nil || err != nil {
		t.Errorf("%v, %v for no devices", g, err)
	}
	grants[0].Response = []byte("rubbish")
	check.Says(t, check.Err(devices.GivenFor(grants)), "example.com/nic", " for an answer that can't be read")
}

func TestInventory(t *testing.T) {
	inv := gpus("a -b c", devices.Options{})
	if all, healthy := inv.Count(gpu); all != 3 || healthy != 2 || !slices.Equal(inv.Registered()[gpu], []string{"a", "c"}) {
		t.Errorf("%d, %d, %v", all, healthy, inv.Registered())
	}
	inv[gpu].Served = false
	if all, healthy := inv.Count(gpu); all != 3 || healthy != 0 || len(inv.Registered()[gpu]) > 0 {
		t.Errorf("of a plugin that is gone: %d, %d, %v", all, healthy, inv.Registered())
	}
	inv[gpu].Forgotten = true
	if _, is := inv.Registered()[gpu]; is {
		t.Error("the checkpoint says that a plugin is known, and it is forgotten")
	}
	if r := (devices.Inventory{}).Missing(inv)[gpu]; !r.Forgotten || r.Awaited {
		t.Errorf("after a restart of the actor: %v", *r)
	}
}

// TestVeryManyDevices: a plugin with as many devices as one may list, and a preference for all of them. Were each looked
// for in a list, this would take more than a minute.
func TestVeryManyDevices(t *testing.T) {
	r := &devices.Resource{Served: true, Options: devices.Options{Preferred: true}}
	for i := range 100_000 {
		r.Devices = append(r.Devices, devices.Device{ID: fmt.Sprintf("device-%06d", i), Healthy: true, Nodes: []int64{int64(i % 2)}})
	}
	inv, pod := devices.Inventory{gpu: r}, needs("p", "40000")
	prefers := map[devices.Key][]string{}
	for i := range r.Devices {
		key := devices.Key{Container: "c0", Resource: gpu}
		prefers[key] = append(prefers[key], r.Devices[len(r.Devices)-1-i].ID)
	}
	p := devices.Place(inv, nil, pod, prefers, []int{0, 1})
	hints := p.Hints([]*v1.Container{&pod.Spec.Containers[0]})
	if why := p.Take(&pod.Spec.Containers[0], topology.Hint{Nodes: topology.NodesOf(0)}); why != nil || len(hints) != 1 {
		t.Fatalf("%v, %v", why, hints)
	}
	ids := p.Result().IDs(devices.Key{Container: "c0", Resource: gpu})
	if len(ids) != 40_000 || ids[0] != "device-020000" || ids[len(ids)-1] != "device-099998" {
		t.Errorf("%d devices, from %s to %s", len(ids), ids[0], ids[len(ids)-1])
	}
}
