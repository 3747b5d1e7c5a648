package served

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// container is one that was asked for. The simulated runtime's lock guards it from its start on.
type container struct {
	config  *runtimeapi.ContainerConfig
	log     string // the file; empty for none
	root    string // what is not in a mount is below it
	ip      string // its pod's; empty on the host's network
	host    string
	started bool
	// end is what its program does when it ends, but for a SIGKILL.
	end func(simcri.Transition)
	web *http.Server
}

// intercept notes what a container is made with, of which the simulated runtime keeps only a part, and opens streams,
// which it does not have.
func (r *Runtime) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	if q, is := request.(*runtimeapi.ExecRequest); is {
		return r.streams.GetExec(q)
	}
	q, is := request.(*runtimeapi.CreateContainerRequest)
	if !is {
		return next(ctx, request)
	}
	server, is := info.Server.(runtimeapi.RuntimeServiceServer)
	if !is {
		return nil, fmt.Errorf("the server is a %T", info.Server)
	}
	box, err := server.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: q.GetPodSandboxId()})
	if err != nil {
		return nil, err
	}
	meta := q.GetConfig().GetMetadata()
	of := name{q.GetSandboxConfig().GetMetadata().GetUid(), meta.GetName(), meta.GetAttempt()}
	c := &container{
		config: q.GetConfig(), ip: box.GetStatus().GetNetwork().GetIp(),
		host: q.GetSandboxConfig().GetHostname(),
		root: filepath.Join(r.dir, "roots", of.uid, fmt.Sprint(of.container, "-", of.attempt)),
	}
	if dir, file := q.GetSandboxConfig().GetLogDirectory(), q.GetConfig().GetLogPath(); dir != "" && file != "" {
		c.log = filepath.Join(dir, file)
	}
	r.mu.Lock()
	if was := r.containers[of]; was == nil || !was.started {
		r.containers[of] = c
	}
	r.mu.Unlock()
	return next(ctx, request)
}

// script is what a container that starts does. It begins at once.
func (r *Runtime) script(s simcri.Starting) *simcri.Script {
	r.mu.Lock()
	c, program := r.containers[name{string(s.Pod.UID), s.Container.Name, s.Attempt}], r.programs[s.Container.Image]
	if c != nil {
		c.started = true
	}
	r.mu.Unlock()
	if c == nil {
		return &simcri.Script{StartError: "it was not created through this server"}
	}
	play, err := r.play(c, program)
	if err != nil {
		return &simcri.Script{StartError: "the served runtime: " + err.Error()}
	}
	return play
}

// observe ends programs, and forgets containers that are gone.
func (r *Runtime) observe(t simcri.Transition) {
	if t.Container == "" {
		return
	}
	of := name{string(t.Pod.UID), t.Container, t.Attempt}
	r.mu.Lock()
	c := r.containers[of]
	if t.Kind == observed.ContainerDeletedEvent {
		delete(r.containers, of)
	}
	r.mu.Unlock()
	if c == nil {
		return
	}
	switch t.Kind {
	case observed.ContainerStoppedEvent:
		c.hangUp()
		if c.end != nil && (t.Cause == simcri.ByItself || t.Cause == simcri.BySignal) {
			c.end(t)
		}
	case observed.ContainerDeletedEvent:
		if err := os.RemoveAll(c.root); err != nil {
			r.problem("remove a container: %v", err)
		}
	case observed.ContainerCreatedEvent, observed.ContainerStartedEvent:
	}
}

// listen serves HTTP at the pod's address.
func (c *container) listen(port string, handler http.Handler) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(c.ip, port))
	if err != nil {
		return err
	}
	c.web = &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go c.web.Serve(listener) //nolint:errcheck // it ends with hangUp
	return nil
}

func (c *container) hangUp() {
	if c.web != nil {
		c.web.Close() //nolint:errcheck // nobody uses it any more
	}
}

// env is a variable of its environment.
func (c *container) env(key, otherwise string) string {
	for _, e := range c.config.GetEnvs() {
		if e.GetKey() == key {
			return string(e.GetValue())
		}
	}
	return otherwise
}

// path is where a file of the container is on this machine.
func (c *container) path(file string) string {
	host, length := filepath.Join(c.root, file), 0
	for _, m := range c.config.GetMounts() {
		at := strings.TrimSuffix(m.GetContainerPath(), "/")
		if len(at) > length && (file == at || strings.HasPrefix(file, at+"/")) {
			host, length = filepath.Join(m.GetHostPath(), file[len(at):]), len(at)
		}
	}
	return host
}

// write adds lines of a stream, stdout or stderr, to the log.
func (c *container) write(stream, text string) error {
	if c.log == "" {
		return nil
	}
	var lines strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&lines, "%s %s F %s\n", time.Now().Format(time.RFC3339Nano), stream, strings.TrimSuffix(line, "\n"))
	}
	f, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines.String())
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
