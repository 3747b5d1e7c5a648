package simcri

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// probed is a pod whose container has a liveness and a readiness probe of a sort.
func probed(sort string, annotations ...string) *v1.Pod {
	handler := func(what string) v1.ProbeHandler {
		switch sort {
		case "http":
			return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/" + what, Port: intstr.FromString("web")}}
		case "tcp": // of two ports
			return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(map[string]int32{"alive": 81, "ready": 82}[what])}}
		case "grpc":
			return v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 80, Service: &what}}
		default:
			return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check", what}}}
		}
	}
	p := aPod(sort, annotations...)
	c := &p.Spec.Containers[0]
	c.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 80}}
	c.LivenessProbe = &v1.Probe{ProbeHandler: handler("alive")}
	c.ReadinessProbe = &v1.Probe{ProbeHandler: handler("ready")}
	return p
}

// ask runs a probe as an agent does, and says whether it passed.
func (w *world) ask(p *v1.Pod, id, ip string, k probe.Kind) (bool, error) {
	w.t.Helper()
	return w.askWithin(time.Second, p, id, ip, k)
}

func (w *world) askWithin(timeout time.Duration, p *v1.Pod, id, ip string, k probe.Kind) (bool, error) {
	w.t.Helper()
	c := &p.Spec.Containers[0]
	t, _ := check.Values(probe.TargetOf(probe.Of(c, k), c, ip))(w.t)
	switch t := t.(type) {
	case probe.HTTP:
		a, done := give[port.HTTPAnswer](w)
		w.Network().ProbeHTTP(context.Background(), t, timeout, done)
		got, err := await(w, a)
		return got.Status == http.StatusOK, err
	case probe.TCP:
		a, done := giveErr(w)
		w.Network().ProbeTCP(context.Background(), t, timeout, done)
		_, err := await(w, a)
		return err == nil, err
	case probe.GRPC:
		a, done := give[string](w)
		w.Network().ProbeGRPC(context.Background(), t, timeout, done)
		got, err := await(w, a)
		return got == "SERVING", err
	case probe.Exec:
		got, err := w.execSync(id, timeout, t.Command...)
		return got.ExitCode == 0, err
	}
	panic("unreachable")
}

// TestHealth: what the two probes of a container say, each second from the first
// after its start: l for alive, r for ready, b for both, - for neither.
func TestHealth(t *testing.T) {
	for _, sort := range []string{"http", "tcp", "grpc", "exec"} {
		for _, c := range []struct {
			annotations []string
			want        string
		}{
			{nil, "bbbb"},
			{[]string{"startup-time", "2500ms"}, "--bbbb"},
			{[]string{"ready-after", "2500ms"}, "llbbbb"},
			{[]string{"unhealthy-after", "2500ms"}, "bb----"},
			{[]string{"ready-for", "2500ms", "unready-for", "1s"}, "bblbblbb"},
			{[]string{"ready-after", "1500ms", "ready-for", "2s", "unready-for", "2s", "unhealthy-after", "6500ms"}, "lbbllb---"},
			{[]string{"startup-time", "1500ms", "ready-after", "2500ms", "app.ready-after", "3500ms"}, "-llbb"},
		} {
			w := newWorld(t)
			p := probed(sort, c.annotations...)
			box, id := w.running(p)
			ip := check.Value(w.sandboxStatus(box))(t).IPs[0]
			begin := check.Value(w.status(id))(t).StartedAt
			got := ""
			for i := range c.want {
				w.clock.Advance(begin.Add(time.Duration(i+1) * time.Second).Sub(w.clock.Now()))
				const timeout = 400 * time.Millisecond // gRPC takes all of it if nobody listens, and both are asked in a second
				alive, _ := w.askWithin(timeout, p, id, ip, probe.Liveness)
				ready, _ := w.askWithin(timeout, p, id, ip, probe.Readiness)
				switch {
				case alive && ready:
					got += "b"
				case alive:
					got += "l"
				case ready:
					got += "r"
				default:
					got += "-"
				}
			}
			check.Equal(t, got, c.want, "%s, %v", sort, c.annotations)
		}
	}
}

func TestSlowAndHungProbes(t *testing.T) {
	for _, sort := range []string{"http", "tcp", "grpc", "exec"} {
		for _, c := range []struct {
			annotations []string
			took        time.Duration
			kind        port.ErrorKind
		}{
			{[]string{"probe-delay", "300ms"}, 301 * time.Millisecond, 0},
			{[]string{"probe-delay", "3s"}, time.Second, port.Deadline},
			{[]string{"probe-hang", "true"}, time.Second, port.Deadline},
		} {
			w := newWorld(t)
			p := probed(sort, c.annotations...)
			box, id := w.running(p)
			ip := check.Value(w.sandboxStatus(box))(t).IPs[0]
			begin := w.clock.Now()
			_, err := w.ask(p, id, ip, probe.Liveness)
			took := w.clock.Now().Sub(begin)
			if sort == "exec" && c.kind == port.Deadline {
				took -= time.Millisecond // the call's own latency
			}
			if took != c.took || (err != nil) != (c.kind != 0) || err != nil && port.KindOf(err) != c.kind {
				t.Errorf("%s, %v: %v after %v", sort, c.annotations, err, took)
			}
		}
	}
}

// TestNobodyThere: addresses of nobody, of the dead, of a network on the host.
func TestNobodyThere(t *testing.T) {
	w := newWorld(t)
	p := probed("http")
	box, id := w.running(p)
	ip := check.Value(w.sandboxStatus(box))(t).IPs[0]
	said := func(host, want string) {
		t.Helper()
		_, err := w.ask(p, id, host, probe.Readiness)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", host, err, want)
		}
	}
	said(ip, "")
	said("10.88.0.77", "no route to host")
	said("192.0.2.1", "connection refused")
	said("nowhere", "no route to host")
	w.Kill() // the runtime is not the network
	said(ip, "")
	w.Restart()
	check.Fatal(t, w.stop(id, 0))
	said(ip, "connection refused")
	check.Fatal(t, w.stopSandboxSync(box))
	said(ip, "no route to host")

	h := probed("http")
	h.Name, h.UID, h.Spec.HostNetwork = "h", "uid-h", true
	box, _ = w.running(h)
	said("192.0.2.1", "")
	check.Fatal(t, w.stopSandboxSync(box))
	check.Fatal(t, w.removeSandboxSync(box))
	said("192.0.2.1", "connection refused")
	check.AtMost(t, len(w.located)+len(w.onHost), 0, "left over: %v %v", w.located, w.onHost)
}

// TestWhosePort: of two containers, the one that declares it, or is probed there.
func TestWhosePort(t *testing.T) {
	w := newWorld(t)
	p := probed("http", "app.startup-time", "1h")
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "log", Image: testImage, Ports: []v1.ContainerPort{{ContainerPort: 90}}})
	box, _ := w.running(p)
	q := creation(p, box, 0)
	q.Container = &p.Spec.Containers[1]
	a, done := give[string](w)
	w.CreateContainer(context.Background(), q, done)
	check.Fatal(t, w.startSync(check.Value(await(w, a))(t)))
	ip := check.Value(w.sandboxStatus(box))(t).IPs[0]
	for number, ok := range map[int]bool{80: false, 90: true, 99: false} {
		a, done := giveErr(w)
		w.Network().ProbeTCP(context.Background(), probe.TCP{Host: ip, Port: number}, time.Second, done)
		if _, err := await(w, a); (err == nil) != ok {
			t.Errorf("port %d: %v", number, err)
		}
	}
}

func TestHookOverTheNetwork(t *testing.T) {
	w := newWorld(t)
	p := probed("http", "startup-time", "10s")
	box, _ := w.running(p)
	ip := check.Value(w.sandboxStatus(box))(t).IPs[0]
	get := func(url string) error {
		a, done := give[bool](w)
		w.Network().HTTPGet(context.Background(), port.HTTPGet{URL: url}, done)
		_, err := await(w, a)
		return err
	}
	wantKind(t, "before it listens", get("http://"+ip+"/x"), port.Unavailable)
	w.clock.Advance(10 * time.Second)
	check.Error(t, get("http://"+ip+":80/x"))
	wantKind(t, "no URL", get("http://a b/"), port.InvalidConfig)
}

func TestNetworkFaults(t *testing.T) {
	fault := Fault{}
	var called Call
	w := newWorld(t, func(c *Config) {
		c.Fault = func(c Call) Fault {
			if c.Method == ProbeHTTP {
				called = c
				return fault
			}
			return Fault{}
		}
	})
	p := probed("http")
	box, id := w.running(p)
	ip := check.Value(w.sandboxStatus(box))(t).IPs[0]
	fault = Fault{Fail: true}
	_, err := w.ask(p, id, ip, probe.Readiness)
	wantKind(t, "a fault", err, port.Unavailable)
	if called.Container != "app" || called.Pod.Name != "http" || called.Object != ip+":80" {
		t.Errorf("%+v", called)
	}
	fault = Fault{Latency: 2 * time.Second}
	_, err = w.ask(p, id, ip, probe.Readiness)
	wantKind(t, "slow", err, port.Deadline)
	fault = Fault{Hang: true}
	a, done := give[port.HTTPAnswer](w)
	w.Network().ProbeHTTP(context.Background(), probe.HTTP{Host: ip, Port: 80}, time.Second, done)
	w.clock.Advance(time.Minute)
	check.AtMost(t, a.n, 0, "a call that hangs was answered")
}

func TestFlappingNeedsBoth(t *testing.T) {
	p := probed("http", "ready-for", "3s")
	check.Says(t, CheckAnnotations(p), "unready-for", "the error")
	s := DefaultScript()
	s.Health.UnreadyFor = Constant(time.Second)
	check.Fails(t, s.Validate(), "a script that is unready for some time and never ready is accepted")
}
