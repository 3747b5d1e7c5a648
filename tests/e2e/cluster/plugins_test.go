package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/tests/check"
)

// cards is a plugin of newCards that is registered once.
func (b *bed) cards(t *testing.T, names ...string) *plugintest.Plugin {
	t.Helper()
	p := newCards(names...)
	b.plugIn(t, p)
	t.Cleanup(p.Stop)
	return p
}

// newCards is a plugin with devices of which a container gets a variable, a device node and a file.
func newCards(names ...string) *plugintest.Plugin {
	p := &plugintest.Plugin{
		Resource: "example.com/card", Options: &api.DevicePluginOptions{PreStartRequired: true},
		Answer: func(ids []string) (*api.AllocateResponse, error) {
			if slices.Contains(ids, "z-broken") {
				return nil, errors.New("the card is broken")
			}
			return &api.AllocateResponse{ContainerResponses: []*api.ContainerAllocateResponse{{
				Envs:        map[string]string{"CARDS": strings.Join(ids, ",")},
				Devices:     []*api.DeviceSpec{{ContainerPath: "/dev/card", HostPath: "/dev/null", Permissions: "rw"}},
				Mounts:      []*api.Mount{{ContainerPath: "/card", HostPath: "/proc/version", ReadOnly: true}},
				Annotations: map[string]string{"example.com/card": "yes"},
			}}}, nil
		},
	}
	p.List(names...)
	return p
}

func (b *bed) plugIn(t *testing.T, p *plugintest.Plugin) {
	t.Helper()
	dir := filepath.Join(b.Root(), "device-plugins")
	os.Remove(filepath.Join(dir, "card.sock")) //nolint:errcheck // of a plugin before
	check.Fatal(t, p.Serve(filepath.Join(dir, "card.sock")))
	b.await(t, "the plugin registers", func() error { return p.Register(t.Context(), dir, "card.sock") })
}

// counted is nil if the Node shows so many devices, and so many healthy ones.
func counted(all, healthy int64) func(*v1.Node) error {
	return func(n *v1.Node) error {
		c, a := n.Status.Capacity["example.com/card"], n.Status.Allocatable["example.com/card"]
		if c.Value() != all || a.Value() != healthy {
			return fmt.Errorf("capacity %s, allocatable %s; want %d, %d", c.String(), a.String(), all, healthy)
		}
		return nil
	}
}

// withCards is a pod that needs some cards.
func (b *bed) withCards(name, n string) *v1.Pod {
	return b.pod(name, changes(work("sleep"), func(s *v1.PodSpec) {
		s.NodeName = b.name
		s.Containers[0].Resources.Limits = v1.ResourceList{"example.com/card": resource.MustParse(n)}
	}))
}

// process is the one that a pod's container runs, and its environment.
func (b *bed) process(t *testing.T, name string) (pid int, env []string) {
	t.Helper()
	pid = check.Value(b.containerPID(t, b.get(t, name)))(t)
	// A container that has just started is still runc for a moment.
	b.await(t, name+" runs its own program", func() error {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		env = strings.Split(string(data), "\x00")
		own := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "HOSTNAME=") })
		return errors.Join(err, check.That(own, "its environment is %q", env))
	})
	return pid, env
}

// cardsIn are the cards that a pod's process has, as it sees them.
func (b *bed) cardsIn(t *testing.T, name string) string {
	t.Helper()
	pid, env := b.process(t, name)
	card, err := os.Stat(fmt.Sprintf("/proc/%d/root/dev/card", pid))
	if err != nil || card.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("%s: the device node: %v, %v", name, card, err)
	}
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/card", pid)); err != nil || !bytes.Contains(data, []byte("Linux")) {
		t.Errorf("%s: the mount: %s, %v", name, data, err)
	}
	for _, v := range env {
		if cards, is := strings.CutPrefix(v, "CARDS="); is {
			return cards
		}
	}
	return ""
}

// cardIs holds how the status of the pod says that its card is.
func cardIs(card string, want v1.ResourceHealthStatus) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		got := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		if len(got) != 1 || len(got[0].Resources) != 1 || got[0].Name != "example.com/card" ||
			got[0].Resources[0].ResourceID != v1.ResourceID(card) || got[0].Resources[0].Health != want {
			return fmt.Errorf("allocatedResourcesStatus is %v; want card %q to be %s", got, card, want)
		}
		return nil
	}
}

// TestDevicePlugin: a plugin registers, containers have its devices, and each device is one container's. The plugin dies,
// and the agent, and no device is lost or given twice.
//
//tier:real
func TestDevicePlugin(t *testing.T) {
	t.Parallel()
	b := started(t, "device-plugin")
	p := b.cards(t, "a", "b", "-c")
	b.awaitNode(t, "shows its devices", counted(3, 2))
	b.create(t, b.withCards("one", "1"))
	before := b.awaitPod(t, "one", "is ready", ready)
	first := b.cardsIn(t, "one")
	b.awaitPod(t, "one", "shows that its card is healthy", cardIs(first, v1.ResourceHealthStatusHealthy))
	if !slices.Contains(p.Calls(), fmt.Sprintf("start [%s]", first)) {
		t.Errorf("the plugin got %v; want it to be told of the start", p.Calls())
	}
	b.create(t, b.withCards("two", "2"))
	b.awaitRefused(t, "two", "UnexpectedAdmissionError",
		"Allocate failed due to requested number of devices unavailable for example.com/card. Requested: 2, Available: 1")

	p.Stop()
	b.awaitNode(t, "shows no healthy device", counted(3, 0))
	b.awaitPod(t, "one", "shows that nobody knows how its card is", cardIs(first, v1.ResourceHealthStatusUnknown))
	p = b.cards(t, "-"+first, "spare")
	b.awaitPod(t, "one", "shows that its card is unhealthy", cardIs(first, v1.ResourceHealthStatusUnhealthy))
	p.Stop()
	b.awaitNode(t, "shows no healthy device again", counted(2, 0))
	b.create(t, b.withCards("patient", "1")) // waits for the plugin
	p = b.cards(t, "a", "b", "c")
	b.awaitNode(t, "shows its devices again", counted(3, 3))
	b.awaitPod(t, "patient", "is ready", ready)
	second := b.cardsIn(t, "patient")
	if first == second || first == "" || second == "" {
		t.Errorf("cards %q and %q", first, second)
	}
	b.wantDevices(t, map[string]string{"one": "example.com/card[" + first + "]", "patient": "example.com/card[" + second + "]"})

	b.kill(t)
	p.Stop()
	b.start(t)
	b.await(t, "the agent listens for plugins", func() error {
		_, err := os.Stat(filepath.Join(b.Root(), "device-plugins", "kubelet.sock"))
		return err
	})
	b.create(t, b.withCards("third", "1"))
	b.cards(t, "a", "b", "c", "z-broken")
	b.awaitPod(t, "third", "is ready", ready)
	if third := b.cardsIn(t, "third"); third == first || third == second || third == "" {
		t.Errorf("cards %q, %q and %q", first, second, third)
	}
	for _, name := range [...]string{"one", "patient"} {
		if s := b.get(t, name).Status.ContainerStatuses[0]; s.RestartCount != 0 || !s.Ready {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if was, is := before.Status.ContainerStatuses[0].ContainerID, b.get(t, "one").Status.ContainerStatuses[0].ContainerID; was != is {
		t.Errorf("container %s; want %s", is, was)
	}
	b.create(t, b.withCards("unlucky", "1"))
	b.awaitRefused(t, "unlucky", "UnexpectedAdmissionError", "the card is broken")

	data := check.Value(os.ReadFile(filepath.Join(b.Root(), "device-plugins", "kubelet_internal_checkpoint")))(t)
	file := checkpoint.New(nil, nil)
	if err := errors.Join(file.UnmarshalCheckpoint(data), file.VerifyChecksum()); err != nil {
		t.Errorf("a kubelet does not take the checkpoint: %v", err)
	}
	if given, registered := file.GetData(); len(given) != 3 || len(registered["example.com/card"]) != 4 {
		t.Errorf("the checkpoint has %v and %v", given, registered)
	}
	b.remove(t, "one")
	b.await(t, "its device is free", func() error {
		data, err := os.ReadFile(filepath.Join(b.Root(), "device-plugins", "kubelet_internal_checkpoint"))
		if err == nil && bytes.Contains(data, []byte(before.UID)) {
			err = errors.New("the checkpoint has the pod")
		}
		return err
	})
	b.create(t, b.withCards("fourth", "1"))
	b.awaitPod(t, "fourth", "is ready", ready)
	if got := b.cardsIn(t, "fourth"); got != first {
		t.Errorf("card %q; want %q, which is free", got, first)
	}

	// A damaged checkpoint: nobody knows what runs with which device, and all goes on.
	b.kill(t)
	check.Fatal(t, os.WriteFile(filepath.Join(b.Root(), "device-plugins", "kubelet_internal_checkpoint"), []byte("rubbish"), 0o600))
	b.start(t)
	b.cards(t, "a", "b", "c")
	b.awaitNode(t, "shows its devices once more", counted(3, 3))
	for _, name := range [...]string{"patient", "third", "fourth"} {
		if s := b.awaitPod(t, name, "is ready", ready).Status.ContainerStatuses[0]; s.RestartCount != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
