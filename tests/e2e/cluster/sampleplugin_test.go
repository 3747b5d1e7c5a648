package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// sampleResource and sampleDevices are what the sample device plugin of Kubernetes has.
const sampleResource v1.ResourceName = "example.com/resource"

var sampleDevices = []string{"Dev-1", "Dev-2"}

// sampleFiles is held while the plugin runs: it writes a file for each device in /tmp, whichever node it serves.
var sampleFiles sync.Mutex

// asOnNode lets a program see a node's directory where it looks for it, /var/lib/kubelet, and containerd's CDI
// directory. Nobody else sees that, and it ends with the program.
const asOnNode = `set -e
mount -t tmpfs none /var/lib
mkdir /var/lib/kubelet
mount --bind "$1" /var/lib/kubelet
mount -t tmpfs none /run
mkdir /run/cdi
mount --bind "$2" /run/cdi
exec "$3"`

// plugin is a program on the machine beside the agent, which a test kills and starts again.
type plugin struct {
	command func() *exec.Cmd
	log     string
	process *lab.Process
}

// newPlugin is a plugin that ends with the test.
func newPlugin(t *testing.T, log string, command func() *exec.Cmd) *plugin {
	t.Helper()
	p := &plugin{command: command, log: log}
	t.Cleanup(func() {
		p.kill(t)
		if text, err := os.ReadFile(log); t.Failed() {
			t.Logf("the end of %s:\n%s %v", log, text[max(0, len(text)-4000):], err)
		}
	})
	return p
}

// start starts the plugin, unless it runs. As on a node, a plugin that has ended by itself is started again.
func (p *plugin) start(t *testing.T) {
	t.Helper()
	if p.process != nil {
		select {
		case <-p.process.Exited():
		default:
			return
		}
	}
	log := check.Value(os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer log.Close()
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	p.process = check.Value(lab.StartProcess(cmd))(t)
}

func (p *plugin) kill(t *testing.T) {
	t.Helper()
	if p.process == nil {
		return
	}
	check.Error(t, p.process.Signal(syscall.SIGKILL))
	<-p.process.Exited()
	p.process = nil
}

// samplePlugin is the sample device plugin of Kubernetes, not yet started. A container gets of each device a file,
// and by CDI a device node and a variable.
func (b *bed) samplePlugin(t *testing.T) *plugin {
	t.Helper()
	lab.Need(t, lab.Unshare)
	repository := check.Value(lab.Repository())(t)
	binary := check.Value(lab.BuildSampleDevicePlugin(t.Context(), repository, os.Stderr))(t)
	sampleFiles.Lock()
	t.Cleanup(func() {
		for _, d := range sampleDevices {
			os.Remove(filepath.Join("/tmp", d)) //nolint:errcheck // it is there only if a pod had it
		}
		sampleFiles.Unlock()
	})
	return newPlugin(t, filepath.Join(b.Root(), "..", "sample.log"), func() *exec.Cmd {
		cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", asOnNode, "sh", b.Root(), b.lab.CDIDir(), binary)
		cmd.Env = append(os.Environ(), "CDI_ENABLED=1")
		return cmd
	})
}

// awaitSample waits until the Node shows the devices of the plugin, which is started again if it ends.
func (b *bed) awaitSample(t *testing.T, p *plugin) {
	t.Helper()
	b.awaitNode(t, "shows the sample devices", func(n *v1.Node) error {
		p.start(t)
		return shows(sampleResource, int64(len(sampleDevices)))(n)
	})
}

// withSample is a pod that needs some of the plugin's devices.
func (b *bed) withSample(name, n string) *v1.Pod {
	return b.pod(name, changes(work("sleep"), func(s *v1.PodSpec) {
		s.Containers[0].Resources.Limits = v1.ResourceList{sampleResource: resource.MustParse(n)}
	}))
}

// sampleIn are the devices that a pod's container has, as it sees them.
func (b *bed) sampleIn(t *testing.T, name string) (out []string) {
	t.Helper()
	pid, env := b.process(t, name)
	for _, d := range sampleDevices {
		root := fmt.Sprintf("/proc/%d/root/tmp/", pid)
		file, noFile := os.Stat(root + d)
		node, noNode := os.Stat(root + "CDI-" + d)
		switch {
		case errors.Is(noFile, os.ErrNotExist) && errors.Is(noNode, os.ErrNotExist):
			continue
		case noFile != nil || noNode != nil || !file.Mode().IsRegular() || node.Mode().Type() != os.ModeDevice:
			t.Errorf("pod %s has of %s the file %v (%v) and the device node %v (%v)", name, d, file, noFile, node, noNode)
		}
		out = append(out, d)
	}
	if len(out) > 0 && !slices.Contains(env, "CDI_DEVICE=CDI-"+out[len(out)-1]) { // each device sets it
		t.Errorf("pod %s with devices %v has no CDI_DEVICE in %v", name, out, env)
	}
	return out
}

// wantSample holds that these pods have so many of the devices, and that monitors, the checkpoint and the containers
// say the same of each. A device that two pods have fails the test.
func (b *bed) wantSample(t *testing.T, want map[string]int) (has map[string]string) {
	t.Helper()
	has = map[string]string{}
	holder := map[string]string{}
	checkpointed := b.checkpointed(t)
	list := check.Value(b.monitor(t).List(t.Context(), &podresources.ListPodResourcesRequest{}))(t)
	for _, p := range list.GetPodResources() {
		var told []string
		for _, d := range p.GetContainers()[0].GetDevices() {
			told = append(told, d.GetDeviceIds()...)
		}
		slices.Sort(told)
		name := p.GetName()
		has[name] = strings.Join(told, " ")
		for _, d := range told {
			if other, is := holder[d]; is {
				t.Errorf("device %s is both of pod %s and of pod %s", d, other, name)
			}
			holder[d] = name
		}
		seen := strings.Join(b.sampleIn(t, name), " ")
		uid := string(b.get(t, name).UID)
		if seen != has[name] || checkpointed[uid] != has[name] || len(told) != want[name] {
			t.Errorf("pod %s: want %d devices; monitors are told of %q, the checkpoint has %q, the container sees %q",
				name, want[name], has[name], checkpointed[uid], seen)
		}
		delete(checkpointed, uid)
	}
	if len(checkpointed) > 0 || len(has) != len(want) {
		t.Errorf("the checkpoint has others too: %v; monitors are told of %v", checkpointed, has)
	}
	return has
}

// checkpointed is what a kubelet would read in the checkpoint: the devices of each pod, by its UID.
func (b *bed) checkpointed(t *testing.T) map[string]string {
	t.Helper()
	data := check.Value(os.ReadFile(filepath.Join(b.Root(), "device-plugins", "kubelet_internal_checkpoint")))(t)
	file := checkpoint.New(nil, nil)
	if err := errors.Join(file.UnmarshalCheckpoint(data), file.VerifyChecksum()); err != nil {
		t.Fatalf("a kubelet does not take the checkpoint: %v", err)
	}
	out := map[string]string{}
	given, _ := file.GetData()
	for _, entry := range given {
		var ids []string
		for _, list := range entry.DeviceIDs {
			ids = append(ids, list...)
		}
		slices.Sort(ids)
		out[entry.PodUID] = strings.TrimSpace(out[entry.PodUID] + " " + strings.Join(ids, " "))
	}
	return out
}

// TestSampleDevicePlugin: the sample device plugin of Kubernetes registers as on any node, and containers get its
// devices, each one at a time.
//
//tier:all a plugin of third parties; DevicePlugin has the seam
func TestSampleDevicePlugin(t *testing.T) {
	t.Parallel()
	b := started(t, "sample-plugin")
	p := b.samplePlugin(t)
	b.awaitSample(t, p)
	b.create(t, b.withSample("one", "1"))
	b.create(t, b.withSample("two", "1"))
	b.awaitPod(t, "one", "is ready", ready)
	b.awaitPod(t, "two", "is ready", ready)
	has := b.wantSample(t, map[string]int{"one": 1, "two": 1})
	t.Logf("devices: %v", has)

	b.create(t, b.withSample("both", "2"))
	b.remove(t, "one")
	b.awaitGone(t, "one")
	b.remove(t, "two")
	b.awaitPod(t, "both", "is ready", ready)
	b.wantSample(t, map[string]int{"both": 2})
}
