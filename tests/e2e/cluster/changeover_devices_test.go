package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/tests/check"
)

// devicePods are pods that have cards of a device plugin and a board of a DRA driver each, and what each had when it was
// made. Plugin and driver go on when agents change.
type devicePods struct {
	*bed
	plugin *plugintest.Plugin
	boards *boards
	all    int      // cards
	names  []string // of pods, the oldest first
	had    map[string]devicesHad
}

// devicesHad are a pod's container and its devices: what no change of agents may change.
type devicesHad struct {
	container    string
	restarts     int32
	cards, board string
}

func (b *bed) withDevices(t *testing.T) *devicePods {
	t.Helper()
	cards := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	d := &devicePods{bed: b, plugin: newCards(cards...), all: len(cards), had: map[string]devicesHad{}}
	ended := make(chan error, 1)
	go func() { ended <- d.plugin.Attend(t.Context(), filepath.Join(b.Root(), "device-plugins"), "card.sock") }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the plugin: %v", err)
		}
	})
	d.boards = b.newBoards(t, "a", "b", "c", "d", "e", "f")
	d.boards.say(health.HealthStatus_HEALTHY, "")
	d.boards.serve(t)
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "board"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: d.boards.claimSpec("one")}}
	check.Value(b.admin.ResourceV1().ResourceClaimTemplates(b.name).Create(t.Context(), template, metav1.CreateOptions{}))(t)
	d.awaitCards(t, "the first agent")
	return d
}

// awaitCards waits until the agent has the cards: a kubelet refuses pods that come before.
func (d *devicePods) awaitCards(t *testing.T, agent string) {
	t.Helper()
	d.await(t, agent+" has the cards", func() error {
		all := check.Must(d.monitor(t).GetAllocatableResources(t.Context(), &podresources.AllocatableResourcesRequest{}))
		n := len(cardsAmong(all.GetDevices()))
		return check.That(n == d.all, "it has %d cards of %d", n, d.all)
	})
	d.awaitNode(t, "shows the cards", counted(int64(d.all), int64(d.all)))
}

// add makes a pod with cards and a board that no other one has.
func (d *devicePods) add(t *testing.T, name string, cards int) {
	t.Helper()
	d.create(t, d.pod(name, changes(work("sleep"), func(s *v1.PodSpec) {
		s.ResourceClaims = []v1.PodResourceClaim{{Name: "board", ResourceClaimTemplateName: new("board")}}
		s.Containers[0].Resources = v1.ResourceRequirements{
			Limits: v1.ResourceList{"example.com/card": *resource.NewQuantity(int64(cards), resource.DecimalSI)},
			Claims: []v1.ResourceClaim{{Name: "board"}},
		}
	})))
	d.awaitPod(t, name, "is ready", func(p *v1.Pod) error {
		d.boards.offer(t) // a kubelet that starts removes the slices of drivers
		return ready(p)
	})
	is := d.has(t, name)
	if strings.Count(is.cards, ",") != cards-1 || is.cards == "" || is.board == "" {
		t.Errorf("%s has cards %q and board %q; want %d cards and a board", name, is.cards, is.board, cards)
	}
	for _, other := range d.names {
		has := d.had[other]
		taken := func(card string) bool { return slices.Contains(strings.Split(has.cards, ","), card) }
		if is.board == has.board || slices.ContainsFunc(strings.Split(is.cards, ","), taken) {
			t.Errorf("%s has %+v; %s has %+v", name, is, other, has)
		}
	}
	d.names, d.had[name] = append(d.names, name), is
	asked := slices.DeleteFunc(d.plugin.Calls(), func(call string) bool { return !strings.HasPrefix(call, "allocate ") })
	check.Equal(t, len(asked), len(d.names), "the plugin was asked for cards of %d pods: %v", len(d.names), asked)
}

// hold fails the test if a pod is not as it was.
func (d *devicePods) hold(t *testing.T, when string) {
	t.Helper()
	for _, name := range d.names {
		check.Equal(t, d.has(t, name), d.had[name], "with %s: %s has", when, name)
	}
}

// restart kills the process of a pod. Its next container has the same devices.
func (d *devicePods) restart(t *testing.T, name string) {
	t.Helper()
	was := d.had[name]
	pid, _ := d.process(t, name)
	check.Fatal(t, syscall.Kill(pid, syscall.SIGKILL))
	d.awaitPod(t, name, "runs again", func(p *v1.Pod) error {
		if s := p.Status.ContainerStatuses[0]; s.RestartCount != was.restarts+1 {
			return fmt.Errorf("%d restarts", s.RestartCount)
		}
		return ready(p)
	})
	is := d.has(t, name)
	if is.container == was.container || is.cards != was.cards || is.board != was.board {
		t.Errorf("%s was restarted: it has %+v and had %+v", name, is, was)
	}
	d.had[name] = is
}

// has is what a pod has. Its process, the checkpoints and the agent have to agree about it.
func (d *devicePods) has(t *testing.T, name string) devicesHad {
	t.Helper()
	p := d.get(t, name)
	s := p.Status.ContainerStatuses[0]
	h := devicesHad{s.ContainerID, s.RestartCount, d.cardsIn(t, name), strings.Join(d.boardsIn(t, name), ",")}
	cards := strings.Split(h.cards, ",")
	slices.Sort(cards)
	var told []string
	d.await(t, "the agent tells what "+name+" has", func() error {
		r, err := d.monitor(t).Get(t.Context(), &podresources.GetPodResourcesRequest{PodNamespace: d.name, PodName: name})
		if err == nil {
			told = cardsAmong(r.GetPodResources().GetContainers()[0].GetDevices())
		}
		return err
	})
	if written := d.cardsWritten(t, p); !slices.Equal(cards, written) || !slices.Equal(cards, told) {
		t.Errorf("%s has cards %v; the checkpoint has %v, and monitors are told of %v", name, cards, written, told)
	}
	claim := *p.Status.ResourceClaimStatuses[0].ResourceClaimName
	if got, want := d.dynamic(t, name), fmt.Sprintf("%s %s %s/%s", claim, d.boards.Name, d.name, h.board); got != want {
		t.Errorf("of %s, monitors are told of %q, want %q", name, got, want)
	}
	if prepared, err := d.prepared(); err != nil || prepared[claim] != 1 {
		t.Errorf("claims prepared: %v, %v; want %s for one pod", prepared, err, claim)
	}
	return h
}

// cardsWritten are those that the checkpoint has for a pod, as the kubelet's own code reads it.
func (d *devicePods) cardsWritten(t *testing.T, p *v1.Pod) (out []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.Root(), "device-plugins", "kubelet_internal_checkpoint"))
	file := checkpoint.New(nil, nil)
	if err == nil {
		err = errors.Join(file.UnmarshalCheckpoint(data), file.VerifyChecksum())
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := file.GetData()
	for _, e := range entries {
		if e.PodUID == string(p.UID) && e.ResourceName == "example.com/card" {
			for _, ids := range e.DeviceIDs {
				out = append(out, ids...)
			}
		}
	}
	slices.Sort(out)
	return out
}

// cardsAmong are the cards among devices that an agent tells of.
func cardsAmong(all []*podresources.ContainerDevices) (out []string) {
	for _, d := range all {
		if d.GetResourceName() == "example.com/card" {
			out = append(out, d.GetDeviceIds()...)
		}
	}
	slices.Sort(out)
	return out
}
