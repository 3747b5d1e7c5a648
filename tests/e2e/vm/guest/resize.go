package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/tcpproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

// networkUp gives the machine the address that the emulator expects it to have.
func networkUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, step := range []struct {
		request uint
		set     func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(vm.GuestAddress).To4()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	} {
		card, err := unix.NewIfreq("eth0")
		if err == nil {
			err = step.set(card)
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, step.request, card)
		}
		if err != nil {
			return fmt.Errorf("set eth0 up: %w", err)
		}
	}
	return nil
}

// reachAPI lets the apiserver outside be reached at the address that its certificate is for, and gives
// the configuration of a user who may do everything there.
func reachAPI() (_ *rest.Config, _ *tcpproxy.Proxy, err error) {
	defer check.Return(&err)
	config := check.Must(clientcmd.BuildConfigFromFlags("", vm.AdminKubeconfig))
	at := check.Must(url.Parse(config.Host))
	proxy, err := tcpproxy.Listen(at.Host, net.JoinHostPort(vm.HostAddress, at.Port()))
	return config, proxy, err
}

// amounts are requests and limits of CPU and memory.
type amounts struct{ cpu, memory, cpuLimit, memoryLimit string }

func (a amounts) requirements() v1.ResourceRequirements {
	return v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(a.cpu), v1.ResourceMemory: resource.MustParse(a.memory)},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse(a.cpuLimit), v1.ResourceMemory: resource.MustParse(a.memoryLimit)},
	}
}

// files is what cgroup v2 has then, with CPU limits in steps of so many thousandths.
func (a amounts) files(steps int64) map[string]string {
	cpu, memory := resource.MustParse(a.cpuLimit), resource.MustParse(a.memoryLimit)
	milli := (cpu.MilliValue() + steps - 1) / steps * steps
	return map[string]string{
		"cpu.max":    fmt.Sprintf("%d 100000", milli*100),
		"memory.max": strconv.FormatInt(memory.Value(), 10),
	}
}

// sized is a pod of the cluster that is resized, as a whole or by its container.
type sized struct {
	name  string
	whole bool
}

func (s sized) pod(a amounts) *v1.Pod {
	own := a.requirements()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: metav1.NamespaceDefault}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []v1.Container{{Name: "main", Image: lab.WorkImage, Args: []string{"sleep"}}},
	}}
	if s.whole {
		p.Spec.Resources = &own
	} else {
		p.Spec.Containers[0].Resources = own
	}
	return p
}

// patch is what makes a pod ask for other amounts.
func (s sized) patch(a amounts) ([]byte, error) {
	spec := map[string]any{"containers": []any{map[string]any{"name": "main", "resources": a.requirements()}}}
	if s.whole {
		spec = map[string]any{"resources": a.requirements()}
	}
	return json.Marshal(map[string]any{"spec": spec})
}

// clusterFlags make the node one of a real cluster, whose apiserver runs outside.
var clusterFlags = []string{"--kubeconfig", vm.NodeKubeconfig, "--node-ip", "127.0.0.1"}

// cluster lets the apiserver be reached, from now on until [host.leave].
func (h *host) cluster() (api kubernetes.Interface, err error) {
	if h.api != nil {
		return h.api, nil
	}
	config, proxy, err := reachAPI()
	if err != nil {
		return nil, err
	}
	if api, err = kubernetes.NewForConfig(config); err != nil {
		proxy.Close()
		return nil, err
	}
	h.api, h.leave = api, proxy.Close
	return api, nil
}

// inCluster has the agent start again as one of the cluster.
func (h *host) inCluster(ctx context.Context, do func(context.Context, kubernetes.Interface) error) error {
	api, err := h.cluster()
	if err == nil {
		err = h.restart(ctx, clusterFlags...)
	}
	if err != nil {
		return err
	}
	return do(ctx, api)
}

// resize has the node resize pods of a cluster. The next check starts the agent again.
func (h *host) resize(ctx context.Context) error { return h.inCluster(ctx, h.resizePods) }

func (h *host) resizePods(ctx context.Context, api kubernetes.Interface) (err error) {
	defer check.Return(&err)
	last := amounts{"50m", "24Mi", "125m", "40Mi"} // one up, the other down
	small := amounts{"100m", "16Mi", "200m", "64Mi"}
	both := []sized{{name: "resized"}, {name: "resized-whole", whole: true}}
	ids, weights := map[string]string{}, map[string]int{}
	for _, s := range both {
		check.Must(api.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, s.pod(small), metav1.CreateOptions{}))
	}
	for step, a := range []amounts{
		small,
		{"300m", "32Mi", "400m", "128Mi"},
		{"50m", "24Mi", "100m", "48Mi"},
		last,
	} {
		if a == last && h.machine == vm.Systemd {
			// Before there is a limit that runc may have told the kernel otherwise than systemd.
			check.OK(h.reload(ctx))
		}
		for _, s := range both {
			if step == 0 {
				continue
			}
			patch := check.Must(s.patch(a))
			if _, err := api.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, s.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
				return fmt.Errorf("resize pod %s: %w", s.name, err)
			}
		}
		for _, s := range both {
			weight := check.Must(h.awaitSize(ctx, api, s, a, ids))
			if was := weights[s.name]; step == 1 && weight <= was || step == 2 && weight >= was {
				return fmt.Errorf("the cpu.weight of pod %s was %d, and is %d when it asks for %s", s.name, was, weight, a.cpu)
			}
			weights[s.name] = weight
		}
	}
	if h.machine == vm.Systemd {
		check.OK(errors.Join(h.agent.Kill(ctx), h.agent.Start(ctx)))
		// The next agent reads other amounts than it was asked for.
		for _, s := range both {
			check.Must(h.awaitSize(ctx, api, s, last, ids))
		}
	}
	return deletePods(ctx, api, both[0].name, both[1].name)
}

// deletePods deletes pods and waits until they are gone.
func deletePods(ctx context.Context, api kubernetes.Interface, names ...string) error {
	for _, name := range names {
		if err := api.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return await(ctx, "the apiserver has the pods no more", func() error {
		list := check.Must(api.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{}))
		var err error
		for i := range list.Items {
			if name := list.Items[i].Name; slices.Contains(names, name) {
				err = errors.Join(err, fmt.Errorf("it has %s", name))
			}
		}
		return err
	})
}

// awaitSize waits until status and kernel say that a pod has what it asks for, and gives the weight of
// its cgroup. It must have the container that it had: ids.
func (h *host) awaitSize(ctx context.Context, api kubernetes.Interface, s sized, a amounts, ids map[string]string) (weight int, err error) {
	return weight, await(ctx, fmt.Sprintf("pod %s has %+v", s.name, a), func() error {
		p := check.Must(api.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, s.name, metav1.GetOptions{}))
		h.uids[s.name] = string(p.UID)
		if p.Status.Phase != v1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		c := &p.Status.ContainerStatuses[0]
		if was, known := ids[s.name]; c.RestartCount != 0 || known && was != c.ContainerID {
			return fmt.Errorf("its container was %s, and is %s after %d restarts", was, c.ContainerID, c.RestartCount)
		}
		ids[s.name] = c.ContainerID
		for _, condition := range p.Status.Conditions {
			if condition.Type == v1.PodResizePending || condition.Type == v1.PodResizeInProgress {
				return fmt.Errorf("it is %s: %s", condition.Type, condition.Message)
			}
		}
		told := c.Resources
		if s.whole {
			told = p.Status.Resources
		}
		if told == nil || told.Limits.Cpu().Cmp(resource.MustParse(a.cpuLimit)) != 0 || told.Limits.Memory().Cmp(resource.MustParse(a.memoryLimit)) != 0 ||
			told.Requests.Cpu().Cmp(resource.MustParse(a.cpu)) != 0 {
			return fmt.Errorf("the status says %+v", told)
		}
		of := h.podDir("burstable", string(p.UID))
		_, id, _ := strings.Cut(c.ContainerID, "://")
		exact, rounded := a.files(1), a.files(1)
		if h.machine == vm.Systemd {
			rounded = a.files(10) // systemd has percentages
		}
		for file, want := range rounded {
			for _, dir := range []string{of, h.containerDir(of, id)} {
				got := check.Must(control(filepath.Join(dir, file)))
				// Older releases of runc tell systemd what is rounded, and the kernel what is not.
				if got != want && (dir == of || got != exact[file]) {
					return fmt.Errorf("%s of %s is %q, want %q", file, dir, got, want)
				}
			}
		}
		text := check.Must(os.ReadFile(filepath.Join(of, "cpu.weight")))
		weight = check.Must(strconv.Atoi(strings.TrimSpace(string(text))))
		return nil
	})
}

// restart starts the agent again, with other flags.
func (h *host) restart(ctx context.Context, flags ...string) error {
	if err := h.agent.Stop(ctx); err != nil {
		return err
	}
	h.agent.SetFlags(flags...)
	return h.agent.Start(ctx)
}
