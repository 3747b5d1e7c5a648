package probe

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
)

// Target is what a probe asks.
//
//sumtype:decl
type Target interface{ isTarget() }

// Exec runs a command in the container.
type Exec struct {
	// Command is that of the spec; Words has it expanded.
	Command []string
	env     []v1.EnvVar
}

// Words are the command with the variables of the container's spec; one that comes from elsewhere is empty. They may
// take as much as a program can be started with, so they are made for one run, and not kept. If they take more than
// room, the error is containerplan.ErrTooLong.
func (e Exec) Words(room int) ([]string, error) {
	var values map[string]string
	left := containerplan.Expansion{Left: room}
	words, err := left.All(e.Command, func(name string) (string, bool) {
		if values == nil {
			values = make(map[string]string, len(e.env))
			for i := range e.env {
				values[e.env[i].Name] = e.env[i].Value
			}
		}
		value, is := values[name]
		return value, is
	})
	if err != nil {
		return nil, fmt.Errorf("command of the probe: %w", err)
	}
	return words, nil
}

// Text is the command for people.
func (e Exec) Text() string {
	words, err := e.Words(containerplan.SmallExpansion)
	if err != nil {
		words = e.Command
	}
	return strings.Join(words, " ")
}

// HTTP sends a GET request.
type HTTP struct {
	// TLS is used without verifying the certificate (API HTTPGetAction.scheme).
	TLS  bool
	Host string
	Port int
	// Path may have a query.
	Path    string
	Headers []v1.HTTPHeader
}

// URL is where the request goes. A path that does not have the form of a URL is taken as a plain path.
func (h HTTP) URL() *url.URL {
	u, err := url.Parse(h.Path)
	if err != nil {
		u = &url.URL{Path: h.Path}
	}
	if u.Scheme = "http"; h.TLS {
		u.Scheme = "https"
	}
	host := h.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u.Host = fmt.Sprintf("%s:%d", host, h.Port)
	return u
}

// TCP opens a connection.
type TCP struct {
	Host string
	Port int
}

// GRPC asks the gRPC health service (grpc.health.v1.Health/Check).
type GRPC struct {
	Host    string
	Port    int
	Service string
}

func (Exec) isTarget() {}
func (HTTP) isTarget() {}
func (TCP) isTarget()  {}
func (GRPC) isTarget() {}

// TargetOf says what a probe of a container asks. podIP is empty while the pod has no address.
// known is false if the probe needs that address and it is missing. An error is the pod's own, and
// permanent.
func TargetOf(p *v1.Probe, c *v1.Container, podIP string) (t Target, known bool, err error) {
	host := func(own string) string {
		if own != "" {
			return own
		}
		return podIP
	}
	switch {
	case p.Exec != nil:
		return Exec{p.Exec.Command, c.Env}, true, nil
	case p.HTTPGet != nil:
		g := p.HTTPGet
		port, err := portOf(g.Port, c)
		if err != nil {
			return nil, false, err
		}
		h := HTTP{TLS: g.Scheme == v1.URISchemeHTTPS, Host: host(g.Host), Port: port, Path: g.Path, Headers: g.HTTPHeaders}
		return h, h.Host != "", nil
	case p.TCPSocket != nil:
		port, err := portOf(p.TCPSocket.Port, c)
		if err != nil {
			return nil, false, err
		}
		t := TCP{host(p.TCPSocket.Host), port}
		return t, t.Host != "", nil
	case p.GRPC != nil:
		g := GRPC{Host: podIP, Port: int(p.GRPC.Port)}
		if p.GRPC.Service != nil {
			g.Service = *p.GRPC.Service
		}
		return g, g.Host != "", nil
	default:
		return nil, false, fmt.Errorf("the probe of container %q has none of exec, httpGet, tcpSocket and grpc", c.Name)
	}
}

// portOf is the number of a port, or of the container's port of that name.
func portOf(p intstr.IntOrString, c *v1.Container) (int, error) {
	n := p.IntValue()
	if p.Type == intstr.String {
		found := false
		for i := range c.Ports {
			if c.Ports[i].Name == p.StrVal {
				n, found = int(c.Ports[i].ContainerPort), true
				break
			}
		}
		if !found {
			var err error
			if n, err = strconv.Atoi(p.StrVal); err != nil {
				return 0, fmt.Errorf("container %q has no port named %q: name one of its ports, or give a number", c.Name, p.StrVal)
			}
		}
	}
	if n <= 0 || n > 65535 {
		return 0, fmt.Errorf("invalid port number: %d", n)
	}
	return n, nil
}

// JudgeExec judges a command by its exit code.
func JudgeExec(code int32, stdout, stderr []byte) Answer {
	if code == 0 {
		return Answer{Verdict: Passed}
	}
	return Answer{Verdict: Failed, Output: Shown(string(stdout) + string(stderr))}
}

// JudgeHTTP judges an answer by its status: 200 to 399 passes. An answer that is still a redirect
// leads to another host, and is not followed. If the body can't be read (unread says why), the answer says nothing of
// the container, whatever its status.
func JudgeHTTP(status int, body []byte, unread string) Answer {
	switch {
	case unread != "":
		return Answer{Verdict: Errored, State: "failure", Output: Shown(unread)}
	case status < 200 || status >= 400:
		return Answer{Verdict: Failed, Output: fmt.Sprintf("HTTP probe failed with statuscode: %d", status)}
	case status >= 300:
		return Answer{Verdict: Warned, Output: Shown("Probe terminated redirects, Response body: " + string(body))}
	default:
		return Answer{Verdict: Passed}
	}
}

// JudgeGRPC judges the status of a health service.
func JudgeGRPC(status string) Answer {
	if status == "SERVING" {
		return Answer{Verdict: Passed}
	}
	return Answer{Verdict: Failed, Output: fmt.Sprintf("service unhealthy (responded with %q)", status)}
}

// shownLimit bounds the output of a container in an event, in bytes.
const shownLimit = 1024

// Shown makes text fit for an event.
func Shown(text string) string {
	text = strings.ToValidUTF8(strings.TrimRight(text, " \n\r\t"), "?")
	if len(text) > shownLimit {
		text = strings.ToValidUTF8(text[:shownLimit], "") + "…"
	}
	return text
}

// Reasons of events.
const (
	Unhealthy    = "Unhealthy"
	ProbeWarning = "ProbeWarning"
)

// Event is the warning event for an answer that counted. The reason is empty if there is none.
func Event(k Kind, a Answer) (reason, message string) {
	switch a.Verdict {
	case Warned:
		return ProbeWarning, fmt.Sprintf("%s probe warning: %s", k, a.Output)
	case Failed:
		return Unhealthy, fmt.Sprintf("%s probe failed: %s", k, a.Output)
	case Errored:
		state := cmp.Or(a.State, "unknown")
		return Unhealthy, fmt.Sprintf("%s probe errored and resulted in %s state: %s", k, state, a.Output)
	default:
		return "", ""
	}
}
