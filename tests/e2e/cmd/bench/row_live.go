package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// liveBurst is one measurement of simulated nodes on a real apiserver.
type liveBurst struct {
	nodes, pods int
	// created is how long the client took to create the pods, ready until it saw
	// all of them Ready.
	created, ready time.Duration
	// nodesReady is how long the nodes took to be Ready after the process' start.
	nodesReady time.Duration
	// cpu is what the process used from the first create on until then, and
	// apiserver what the apiserver did; rss is the most memory that it had.
	cpu, apiserver time.Duration
	rss            float64
	gap            float64
	late           int
	// asked are the requests that the apiserver got from the first create on until
	// then, by verb and resource, those that were many.
	asked string
}

// live measures troupe sim --kubeconfig: pods that are created at once on nodes of
// one process, as fast as a client can, bound to their nodes.
func (b *bench) live(ctx context.Context) ([]result, error) {
	var all []result
	for _, size := range []struct {
		nodes, pods int
		limit       time.Duration
		cpu, rss    float64
		compared    string
	}{
		{200, 2000, 8 * time.Second, 5, 150, "kwok 0.8: 5.6 s, 2.3 CPU-s, 74 MiB, with none of a node's logic"},
		{1000, 10000, time.Minute, 0, 0, "kwok 0.8: minutes"},
	} {
		if b.quick && len(all) > 0 {
			break
		}
		m, err := b.liveOnce(ctx, size.nodes, size.pods)
		if err != nil {
			return all, fmt.Errorf("%d nodes: %w", size.nodes, err)
		}
		if m.late > 0 {
			b.fault("live: %d leases of nodes were renewed later than they are good", m.late)
		}
		r := result{
			section: simulation, what: fmt.Sprintf("real apiserver, %d nodes of one process: %d pods created at once, all Ready", m.nodes, m.pods),
			bar: "≤ " + ms(size.limit), floor: size.compared,
			measured: fmt.Sprintf("%s, %.1f CPU-s, %.0f MiB", ms(m.ready), m.cpu.Seconds(), m.rss),
			verdict:  verdict(m.ready <= size.limit && m.late == 0 && (size.cpu == 0 || m.cpu.Seconds() <= size.cpu && m.rss <= size.rss)),
			details: []string{
				fmt.Sprintf("all nodes Ready %s after the process' start; creating the pods took the client %s", ms(m.nodesReady), ms(m.created)),
				fmt.Sprintf("the apiserver used %.1f CPU-s; the machine's cores are shared with it, etcd and the client", m.apiserver.Seconds()),
				"requests: " + m.asked,
				fmt.Sprintf("longest time between two renewals of a node lease (40 s): %.1f s", m.gap),
				"pods are bound when they are created; their image has 1 MiB; events are delayed while statuses are written; at most 50 a second (--event-qps)",
			},
		}
		if size.cpu > 0 {
			r.bar += fmt.Sprintf(", ≤ %.0f CPU-s, ≤ %.0f MiB", size.cpu, size.rss)
		}
		all = append(all, r)
	}
	return all, nil
}

func (b *bench) liveOnce(ctx context.Context, nodes, pods int) (m liveBurst, err error) {
	defer check.Return(&err)
	m.nodes, m.pods = nodes, pods
	dir := check.Must(os.MkdirTemp(b.dir, "live-"))
	plane, err := lab.StartControlPlane(ctx, lab.ControlPlaneConfig{Dir: dir, Repository: b.repository, Log: os.Stdout})
	if err != nil {
		return m, err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errors.Join(err, plane.Stop(stop))
	}()
	admin := check.Must(plane.Kubeconfig("bench-admin", "system:masters"))
	account := check.Must(b.simAccount(ctx, plane, admin))
	config := plane.AdminConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client := check.Must(kubernetes.NewForConfig(config))
	var out, log bytes.Buffer
	cmd := exec.Command(b.binary, "sim", "--kubeconfig", account, "--namespace", "troupe-sim", "--nodes", fmt.Sprint(nodes), "--json")
	cmd.Stdout, cmd.Stderr = &out, &log
	began := time.Now()
	process := check.Must(lab.StartProcess(cmd))
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			stop, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err = errors.Join(fmt.Errorf("%w\n%s", err, log.String()), process.End(stop, syscall.SIGKILL, time.Second))
		}
	}()
	check.OK(awaitNodes(ctx, client, process, nodes))
	m.nodesReady = time.Since(began)
	const renewals = 12 * time.Second // at least one of each node's lease
	check.OK(sleep(ctx, renewals))
	check.OK(m.burst(ctx, client, admin, process.PID(), plane.APIServerPID()))
	check.OK(sleep(ctx, renewals))
	m.rss = check.Must(peakMemory(process.PID()))
	check.OK(process.End(ctx, syscall.SIGTERM, 30*time.Second))
	var summary struct {
		Gap  float64 `json:"leaseGapSeconds"`
		Late int     `json:"leasesLate"`
	}
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil {
		return m, fmt.Errorf("the summary %q: %w", out.String(), err)
	}
	m.gap, m.late = summary.Gap, summary.Late
	return m, os.RemoveAll(filepath.Join(dir, "etcd"))
}

// simAccount is the service account of docs/manifests, known by a certificate.
func (b *bench) simAccount(ctx context.Context, plane *lab.ControlPlane, admin string) (string, error) {
	kubectl, err := lab.BuildKubernetes(ctx, b.repository, "kubectl", os.Stdout)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", admin, "apply", "-f", filepath.Join(b.repository, "docs/manifests/troupe-sim.yaml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("apply the manifests: %w\n%s", err, out)
	}
	return plane.Kubeconfig("system:serviceaccount:troupe-sim:troupe-sim", "system:serviceaccounts", "system:serviceaccounts:troupe-sim")
}

func awaitNodes(ctx context.Context, client *kubernetes.Clientset, process *lab.Process, n int) error {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-process.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	return lab.Eventually(ctx, patience, fmt.Sprintf("%d nodes are Ready", n), func() error {
		list := check.Must(client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
		have := 0
		for i := range list.Items {
			if nodeReady(&list.Items[i]) {
				have++
			}
		}
		if have < n {
			return errors.Join(fmt.Errorf("%d are", have), sleep(ctx, 200*time.Millisecond)) // each list costs the apiserver something
		}
		return nil
	})
}

// burst creates the pods and waits until all are seen Ready.
func (m *liveBurst) burst(
	ctx context.Context, client *kubernetes.Clientset, kubeconfig string, pid, apiserver int,
) (err error) {
	defer check.Return(&err)
	rest := check.Must(kube.Load(kubeconfig))
	watcher := check.Must(kube.New(kube.Config{REST: rest, Version: "bench", QPS: -1, Log: zerolog.Nop()}))
	defer watcher.Close()
	ready, broken := make(chan string, m.pods), make(chan error, 1)
	m.watch(watcher, ready, broken)
	used := check.Must(cpu(pid))
	usedByServer := check.Must(cpu(apiserver))
	before := check.Must(requests(ctx, client))
	began := time.Now()
	creating := make(chan error, 1)
	go func() { creating <- m.create(ctx, client) }()
	const patience = 3 * time.Minute
	late := time.NewTimer(patience)
	defer late.Stop()
	for n := 0; n < m.pods; {
		select {
		case <-ready:
			n++
		case err := <-broken:
			return err
		case err := <-creating:
			if err != nil {
				return err
			}
			m.created, creating = time.Since(began), nil
		case <-late.C:
			return fmt.Errorf("%d of %d pods are Ready after %v", n, m.pods, patience)
		}
	}
	m.ready = time.Since(began)
	now := check.Must(cpu(pid))
	byServer := check.Must(cpu(apiserver))
	m.cpu, m.apiserver = now-used, byServer-usedByServer
	after := check.Must(requests(ctx, client))
	var many []string
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if n := after[what] - before[what]; n >= float64(m.pods)/10 {
			many = append(many, fmt.Sprintf("%.0f %s", n, what))
		}
	}
	m.asked = strings.Join(many, ", ")
	return nil
}

// requests are those that the apiserver has counted, by verb and resource.
func requests(ctx context.Context, client *kubernetes.Clientset) (map[string]float64, error) {
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		labels, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(labels, "apiserver_request_total{") {
			continue
		}
		of := func(name string) string {
			_, rest, _ := strings.Cut(labels, ","+name+"=\"")
			is, _, _ := strings.Cut(rest, "\"")
			return is
		}
		what := of("verb") + " " + of("resource")
		if sub := of("subresource"); sub != "" {
			what += "/" + sub
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		out[what] += n
	}
	return out, nil
}

// watch tells of each pod once, when it is seen Ready.
func (m *liveBurst) watch(api port.API, ready chan<- string, broken chan<- error) {
	told := map[string]bool{}
	see := func(o port.APIObject) {
		if p := o.(*v1.Pod); podIsReady(p) && !told[p.Name] {
			told[p.Name] = true
			ready <- p.Name
		}
	}
	api.Watch(context.Background(), port.Selection{Kind: port.PodKind, Namespace: "default"}, func(c port.APIChange) {
		switch c := c.(type) {
		case port.APIReplaced:
			for _, o := range c.Objects {
				see(o)
			}
		case port.APISet:
			see(c.Object)
		case port.APIDeleted: // none is, before all were Ready
		case port.APIBroken:
			select {
			case broken <- c.Err:
			default: // one is enough
			}
		}
	}, func(error) {})
}

func podIsReady(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// create creates the pods, each bound to a node.
func (m *liveBurst) create(ctx context.Context, client *kubernetes.Clientset) error {
	const workers = 32
	names := make(chan int)
	errs := make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range names {
				p := &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("burst-%05d", i), Annotations: map[string]string{"sim.troupe.dev/image-size": "1Mi"}},
					Spec: v1.PodSpec{
						NodeName:   fmt.Sprintf("sim-%05d", i%m.nodes),
						Containers: []v1.Container{{Name: "c", Image: "registry.test/burst:1"}},
					},
				}
				if _, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
					select {
					case errs <- err:
					default: // one is enough
					}
				}
			}
		})
	}
	for i := range m.pods {
		names <- i
	}
	close(names)
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// peakMemory reads the most memory that a process has had, in MiB.
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
