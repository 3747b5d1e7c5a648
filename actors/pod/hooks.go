package pod

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/port"
)

// hookSlack is what an exec hook is given beyond its own time to be killed.
const hookSlack = 10 * time.Second

// hook runs one lifecycle handler (API LifecycleHandler): exec, httpGet or
// sleep. tcpSocket is in the API for compatibility only and always fails.
func (p *pod) hook(name, id string, h *v1.LifecycleHandler, timeout time.Duration) run {
	failed := func(format string, args ...any) run {
		err := &port.Error{Kind: port.InvalidConfig, Verb: "run hook", Object: p.name() + "/" + name, Detail: fmt.Sprintf(format, args...)}
		return run{deadline: hookSlack, call: func(_ context.Context, done func(ActionDone)) { done(ActionDone{Err: err}) }}
	}
	switch {
	case h == nil:
		return failed("no handler")
	case h.Exec != nil:
		return run{deadline: timeout + hookSlack, patience: timeout, call: func(ctx context.Context, done func(ActionDone)) {
			p.deps.Runtime.ExecSync(ctx, id, h.Exec.Command, timeout, func(r port.ExecResult, err error) {
				if err == nil && r.ExitCode != 0 {
					err = &port.Error{Verb: "run hook", Object: p.name() + "/" + name, Detail: fmt.Sprintf(
						"command %q exited with %d: %s", strings.Join(h.Exec.Command, " "), r.ExitCode, tail(r))}
				}
				done(ActionDone{Err: err})
			})
		}}
	case h.HTTPGet != nil:
		url, err := p.hookURL(name, h.HTTPGet)
		if err != nil {
			return failed("%v", err)
		}
		return run{deadline: timeout + hookSlack, patience: timeout, call: func(ctx context.Context, done func(ActionDone)) {
			p.deps.Network.HTTPGet(ctx, port.HTTPGet{URL: url, Headers: h.HTTPGet.HTTPHeaders, Timeout: timeout}, onlyErr(done))
		}}
	case h.Sleep != nil:
		d := min(time.Duration(h.Sleep.Seconds)*time.Second, timeout)
		// The runner's deadline is the sleep: nothing has to run for it. It answers
		// just then, before its own expiry is told, so that nothing is left of it.
		var answer func(ActionDone)
		return run{
			deadline: max(d, time.Millisecond), patience: d + hookSlack,
			call: func(_ context.Context, done func(ActionDone)) { answer = done },
			over: func() { answer(ActionDone{}) },
		}
	default:
		return failed("a lifecycle hook is one of exec, httpGet and sleep")
	}
}

func (p *pod) hookURL(name string, h *v1.HTTPGetAction) (string, error) {
	host := h.Host
	if host == "" {
		if host = p.address(); host == "" {
			return "", fmt.Errorf("httpGet hook: the pod's address is not known")
		}
	}
	n, err := p.portNumber(name, h.Port)
	if err != nil {
		return "", err
	}
	scheme := strings.ToLower(string(h.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	path := h.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(n)) + path, nil
}

// address is the pod's own, empty while it is not known.
func (p *pod) address() string {
	if s, ok := p.view.ReadySandbox(); ok && len(s.IPs) > 0 {
		return s.IPs[0]
	}
	if p.want.Spec.HostNetwork && len(p.deps.HostIPs) > 0 {
		return p.deps.HostIPs[0]
	}
	return ""
}

func (p *pod) portNumber(container string, port intstr.IntOrString) (int, error) {
	if port.Type == intstr.Int {
		return port.IntValue(), nil
	}
	if spec := p.containerSpec(container); spec != nil {
		for _, cp := range spec.Ports {
			if cp.Name == port.StrVal {
				return int(cp.ContainerPort), nil
			}
		}
	}
	if n, err := strconv.Atoi(port.StrVal); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("httpGet hook: container %q has no port named %q", container, port.StrVal)
}

func (p *pod) setHook(id string, f func(*podplan.Hooks)) {
	h := p.facts.hooks[id]
	f(&h)
	put(&p.facts.hooks, id, h)
}

// tail is the end of a command's output, for a message.
func tail(r port.ExecResult) string {
	out := r.Stderr
	if len(out) == 0 {
		out = r.Stdout
	}
	s := strings.TrimSpace(string(out))
	if len(s) > 200 {
		s = "…" + s[len(s)-200:]
	}
	return strings.ReplaceAll(s, "\n", " ")
}
