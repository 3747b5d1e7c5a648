package pod

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var (
	_ = performs(func(a podplan.RunPostStart) effect { return postStart{RunPostStart: a} })
	_ = performs(func(a podplan.RunPreStop) effect { return preStop{RunPreStop: a} })
)

type postStart struct {
	podplan.RunPostStart
	quiet
}

func (a postStart) kind() string     { return hookKind(a.Handler) }
func (a postStart) object() string   { return a.Name + " postStart" }
func (a postStart) begin(p *pod) run { return p.hook(a.Name, a.ID, a.Handler, startDeadline) }

func (a postStart) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.hookFailed(ctx, a.Name, a.Handler, "FailedPostStartHook", "PostStartHook failed", f)
}

type preStop struct {
	podplan.RunPreStop
	quiet
}

func (a preStop) kind() string     { return hookKind(a.Handler) }
func (a preStop) object() string   { return a.Name + " preStop" }
func (a preStop) begin(p *pod) run { return p.hook(a.Name, a.ID, a.Handler, a.Grace) }

func (a preStop) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.hookFailed(ctx, a.Name, a.Handler, "FailedPreStopHook", "PreStopHook failed", f)
}

func hookKind(h *v1.LifecycleHandler) string {
	switch {
	case h != nil && h.Exec != nil:
		return "ExecSync"
	case h != nil && h.HTTPGet != nil:
		return "HTTPGet"
	default:
		return "Sleep"
	}
}

// sleepPatience is how much longer than its duration a sleep hook may take before it is shown as
// slow.
const sleepPatience = 10 * time.Second

// hook runs one lifecycle handler (API LifecycleHandler): exec, httpGet or sleep. tcpSocket is in
// the API for compatibility only and always fails. A hook ends by itself, or with its container:
// the plan says when (Output.EndHooks). One that takes longer than expected is shown as slow.
func (p *pod) hook(name, id string, h *v1.LifecycleHandler, expected time.Duration) run {
	object := p.name() + "/" + name // not in the closures: they run elsewhere
	fail := func(kind port.ErrorKind, format string, args ...any) error {
		return &port.Error{Kind: kind, Verb: "run hook", Object: object, Detail: fmt.Sprintf(format, args...)}
	}
	r := run{deadline: kernel.NoDeadline, patience: expected}
	switch {
	case h != nil && h.Exec != nil:
		command := strings.Join(h.Exec.Command, " ")
		r.call = func(ctx context.Context, done func(ActionDone)) {
			p.deps.Runtime.ExecSync(ctx, id, port.Words(h.Exec.Command...), 0, func(r port.ExecResult, err error) {
				switch {
				case err != nil && ctx.Err() != nil:
					err = fail(port.Canceled, "command %q was still running when its container was stopped", command)
				case err == nil && r.ExitCode != 0:
					err = fail(port.Other, "command %q exited with %d: %s", command, r.ExitCode, tail(r))
				}
				done(ActionDone{Err: err})
			})
		}
	case h != nil && h.HTTPGet != nil:
		u, err := p.hookURL(name, h.HTTPGet)
		if err != nil {
			return unable(fail(port.InvalidConfig, "%v", err))
		}
		get := port.HTTPGet{URL: u.String(), Headers: h.HTTPGet.HTTPHeaders}
		r.call = func(ctx context.Context, done func(ActionDone)) {
			p.deps.Network.HTTPGet(ctx, get, func(plain bool, err error) {
				d := ActionDone{Err: err}
				switch {
				case err != nil && ctx.Err() != nil:
					d.Err = fail(port.Canceled, "%s had not answered when the container was stopped", get.URL)
				case plain:
					d.Note = withoutTLS(u)
				}
				done(d)
			})
		}
	case h != nil && h.Sleep != nil:
		d := podspec.Seconds(h.Sleep.Seconds)
		r.patience = d + sleepPatience
		r.call = func(ctx context.Context, done func(ActionDone)) {
			kernel.After(ctx, d, func(ended error) {
				var err error
				if ended != nil {
					err = fail(port.Canceled, "the container was stopped during the sleep of %v", d)
				}
				done(ActionDone{Err: err})
			})
		}
	default:
		return unable(fail(port.InvalidConfig, "a lifecycle hook is one of exec, httpGet and sleep"))
	}
	return r
}

// withoutTLS says that the server of a hook with scheme HTTPS has none, in the words of a kubelet.
func withoutTLS(u *url.URL) *podplan.Note {
	return &podplan.Note{Warning: true, Reason: "LifecycleHTTPFallback", Message: fmt.Sprintf(
		"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", u.Host)}
}

// endHooks cancels the running hooks of these containers. Each still answers.
func (p *pod) endHooks(ctx *kernel.Context[Message], ids []string) {
	for _, l := range p.lanes {
		if l.Value.Kind == podplan.LaneHook && slices.Contains(ids, l.Value.Name) {
			ctx.Cancel(l.Key)
		}
	}
}

// hookFailed reports a failed hook. A sleep that ended with its container is no failure. What a command or a server
// said may hold secrets, and more people read events than pods and the log.
func (p *pod) hookFailed(
	ctx *kernel.Context[Message], name string, h *v1.LifecycleHandler, reason, what string, f failed,
) {
	if h != nil && h.Sleep != nil && f.kind == port.Canceled {
		return
	}
	ctx.Log().Warn().Str("pod", p.name()).Str("container", name).Str("error", f.detail).Msg(what)
	p.event(ctx, name, true, reason, what)
}

func (p *pod) hookURL(name string, h *v1.HTTPGetAction) (*url.URL, error) {
	host := h.Host
	if host == "" {
		if host = p.address(); host == "" {
			return nil, fmt.Errorf("httpGet hook: the pod's address is not known")
		}
	}
	n, err := p.portNumber(name, h.Port)
	if err != nil {
		return nil, err
	}
	return probe.HTTP{TLS: h.Scheme == v1.URISchemeHTTPS, Host: host, Port: n, Path: h.Path}.URL(), nil
}

// podIP is the pod's first address as its status has it, empty while it is unknown.
func (p *pod) podIP() string {
	if s, ok := p.facts.View.ReadySandbox(); ok && len(s.IPs) > 0 {
		return podstatus.ByFamily(s.IPs, p.deps.PreferIPv6)[0]
	}
	return p.address()
}

// address is where hooks reach the pod, empty while it is unknown: the runtime's first address of it. Programs that
// listen to one family may rely on that, as a kubelet's hooks go there too.
func (p *pod) address() string {
	if s, ok := p.facts.View.ReadySandbox(); ok && len(s.IPs) > 0 {
		return s.IPs[0]
	}
	if p.want.Spec.HostNetwork && len(p.machine.HostIPs) > 0 {
		return p.machine.HostIPs[0]
	}
	return ""
}

func (p *pod) portNumber(container string, port intstr.IntOrString) (int, error) {
	if port.Type == intstr.Int {
		return port.IntValue(), nil
	}
	if spec, _ := podspec.Find(&p.want.Spec, container); spec != nil {
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
