package differ

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// side is one of the two nodes, with a runtime and a namespace of its own.
type side struct {
	*member.Member
	namespace, host, serviceIP string
	admin                      kubernetes.Interface
	lab                        *lab.Lab
	proxy                      *criproxy.Proxy
	calls                      recorder
	lives                      lives
	told                       events
	stop                       chan struct{}
}

// patience is for what takes a moment, on a busy machine too.
const patience = 4 * time.Minute

// settings are those of both nodes that are not a member's.
const settings = "resolvConf: "

// newSide starts a runtime, with the runc of a directory, and an agent, and waits until the node is ready.
func newSide(ctx context.Context, shared *lab.Shared, agent member.Agent, runc string) (s *side, err error) {
	defer check.Return(&err)
	name := agent.Name
	plane := check.Must(shared.ControlPlane())
	dir := check.Must(os.MkdirTemp(shared.Dir, ""))
	// Root of a pod with users of its own has to get to its files.
	check.OK(errors.Join(os.Chmod(shared.Dir, 0o711), os.Chmod(dir, 0o711)))
	s = &side{namespace: "space-" + name, host: filepath.Join(dir, "host"), stop: make(chan struct{})}
	s.calls.calls = map[string][]criproxy.Call{}
	s.admin = check.Must(kubernetes.NewForConfig(plane.AdminConfig()))
	s.lab = check.Must(lab.New(ctx, lab.Config{
		Dir: filepath.Join(dir, "c"), Release: lab.Containerd2, RuncDir: runc, Registry: check.Must(shared.Registry()), Log: os.Stderr,
	}))
	check.OK(s.lab.Start(ctx))
	for _, image := range []string{lab.PauseImage, lab.WorkImage, userImage, namedImage} {
		check.Must(s.lab.Images().PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}))
	}
	s.proxy = check.Must(criproxy.Start(criproxy.Config{Socket: filepath.Join(dir, "p.sock"), Target: s.lab.SocketPath(), Fault: s.calls.look}))
	resolver := filepath.Join(dir, "resolv.conf")
	check.OK(os.WriteFile(resolver, []byte("nameserver 10.7.7.7\nsearch node.example.com\noptions timeout:3\n"), 0o644))
	node := "differ-" + name
	s.Member = check.Must(member.New(member.Config{
		Agent: agent, Node: node, Dir: filepath.Join(dir, "n"), Endpoint: s.proxy.Endpoint(), CgroupRoot: s.lab.CgroupRoot(), Plane: plane,
		Flags: []string{"--node-ip", nodeAddress()}, Settings: settings + resolver,
	}))
	s.lives = lives{of: map[string]*life{}, normal: s.normal}
	check.OK(s.makeHost())
	check.OK(s.makeObjects(ctx))
	check.OK(errors.Join(s.watch("pods", &v1.Pod{}, &s.lives), s.watch("events", &v1.Event{}, &s.told)))
	check.OK(s.Start())
	return s, s.awaitNode(ctx)
}

// watch tells a handler of the objects of a kind in the namespace.
func (s *side) watch(resource string, kind runtime.Object, handler cache.ResourceEventHandler) error {
	watched := cache.NewListWatchFromClient(s.admin.CoreV1().RESTClient(), resource, s.namespace, fields.Everything())
	informer := cache.NewSharedInformer(watched, kind, 0)
	_, err := informer.AddEventHandler(handler)
	go informer.Run(s.stop)
	return err
}

func (s *side) awaitNode(ctx context.Context) error {
	return lab.Eventually(ctx, patience, s.Node()+" is ready", func() error {
		check.OK(s.Running())
		n := check.Must(s.admin.CoreV1().Nodes().Get(ctx, s.Node(), metav1.GetOptions{}))
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not")
	})
}

// close ends all of it.
func (s *side) close(ctx context.Context) error {
	close(s.stop)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	err := errors.Join(s.admin.CoreV1().Pods(s.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}), s.Stop(ctx), s.proxy.Close(), s.lab.Cleanup(ctx), lab.Unmount(s.host))
	return errors.Join(err, s.admin.CoreV1().Nodes().Delete(ctx, s.Node(), now), s.admin.CoreV1().Namespaces().Delete(ctx, s.namespace, now),
		s.Discard())
}

// normal is the normal form of what is said of a pod of this node.
func (s *side) normal(p *v1.Pod) normal {
	pairs := []string{
		s.Dir, "/AGENT", s.lab.Dir(), "/RUNTIME", filepath.Join(s.host, p.Name), "/HOST", s.host, "/HOST", s.lab.CgroupRoot(), "/CGROUPS", s.namespace, "NAMESPACE", s.Node(), "NODE",
		string(p.UID), "UID", p.Name, "POD", s.serviceIP, "SERVICE_IP",
	}
	for _, ip := range p.Status.PodIPs {
		if ip.IP != p.Status.HostIP {
			pairs = append(pairs, ip.IP, "POD_IP")
		}
	}
	return newNormal(pairs...)
}

// nodeAddress is one of the machine's that others could reach it by: a kubelet takes no other.
func nodeAddress() string {
	addresses, err := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, is := a.(*net.IPNet); err == nil && is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// makeHost makes the directory that pods have of the node. It is a shared mount, as a node's root is.
func (s *side) makeHost() (err error) {
	defer check.Return(&err)
	check.OK(os.MkdirAll(s.host, 0o755))
	check.OK(syscall.Mount(s.host, s.host, "", syscall.MS_BIND, ""))
	check.OK(syscall.Mount("", s.host, "", syscall.MS_SHARED, ""))
	return fill(s.host, []string{"claims/host", "claims/local", "claims/group"}, []string{"claims/host/h", "claims/local/l"})
}

// makePlace makes what hostPlace is for a pod of a name: what others write there is no matter of its.
func (s *side) makePlace(name string) error {
	place := filepath.Join(s.host, name)
	return errors.Join(
		fill(place, []string{"dir/below", "parts/in/side", "spread"}, []string{"file", "dir/a", "dir/below/b", "parts/plain", "parts/file.txt", "parts/in/side/x"}),
		os.Symlink(filepath.Join(place, "dir"), filepath.Join(place, "link")))
}

func fill(top string, dirs, files []string) (err error) {
	defer check.Return(&err)
	for _, dir := range dirs {
		check.OK(os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	for _, file := range files {
		check.OK(os.WriteFile(filepath.Join(top, file), []byte(file+"\n"), 0o640))
	}
	return nil
}

// place is a text in which hostPlace is that of a pod on this node.
func (s *side) place(path, name string) string {
	return strings.ReplaceAll(path, hostPlace, filepath.Join(s.host, name))
}
