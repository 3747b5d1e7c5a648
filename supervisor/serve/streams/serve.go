package streams

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
)

func (s *Streams) exec(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	options, err := streamOptions(query)
	if err != nil {
		return err
	}
	command := query[paramCommand]
	if len(command) == 0 {
		return badRequest("you must specify at least one command for the container")
	}
	if err := upgrades(r); err != nil {
		return err
	}
	id, _, err := s.container(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	to, err := answer.Of(ctx, func(done func(string, error)) {
		s.config.Runtime.Exec(ctx, port.ExecStream{ContainerID: id, Command: command, StreamOptions: options}, done)
	})
	if err != nil {
		return err
	}
	return s.process(w, r, "exec", to, options)
}

func (s *Streams) attach(w http.ResponseWriter, r *http.Request) error {
	options, err := streamOptions(r.URL.Query())
	if err != nil {
		return err
	}
	if err := upgrades(r); err != nil {
		return err
	}
	id, tty, err := s.container(r)
	if err != nil {
		return err
	}
	// Whether a process has a terminal was settled when it was started.
	if options.TTY = tty; tty {
		options.Stderr = false
	}
	ctx := r.Context()
	to, err := answer.Of(ctx, func(done func(string, error)) {
		s.config.Runtime.Attach(ctx, port.AttachStream{ContainerID: id, StreamOptions: options}, done)
	})
	if err != nil {
		return err
	}
	return s.process(w, r, "attach", to, options)
}

func (s *Streams) portForward(w http.ResponseWriter, r *http.Request) error {
	named, err := ports(r)
	if err != nil {
		return err
	}
	if err := upgrades(r); err != nil {
		return err
	}
	id, err := s.sandbox(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	text, err := answer.Of(ctx, func(done func(string, error)) {
		s.config.Runtime.PortForward(ctx, port.PortForwardStream{SandboxID: id, Ports: named}, done)
	})
	if err != nil {
		return err
	}
	to, err := location(text)
	if err != nil {
		return err
	}
	return s.carry(w, r, to, func(l *link) http.Handler {
		if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
			s.config.WebSocket("portforward")
			return tunnel{l}
		}
		return l.asItIs()
	})
}

// process connects a client with the streams of a process, by a subresource of its pod.
func (s *Streams) process(
	w http.ResponseWriter, r *http.Request, subresource, text string, o port.StreamOptions,
) error {
	to, err := location(text)
	if err != nil {
		return err
	}
	return s.carry(w, r, to, func(l *link) http.Handler {
		if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
			s.config.WebSocket(subresource)
			return translator{l, o}
		}
		return l.asItIs()
	})
}

// upgrades is nil for a request that wants another protocol. It is asked before the runtime is: a
// runtime holds a place for each stream that it promised, and has not many (containerd: 1000).
func upgrades(r *http.Request) error {
	if !httpstream.IsUpgradeRequest(r) {
		return badRequest("Upgrade request required")
	}
	if r.ProtoMajor != 1 {
		return badRequest("streams need HTTP/1.1, not %s", r.Proto)
	}
	return nil
}

// location reads the URL that a runtime gave.
func location(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = fmt.Errorf("it must be an http or https URL with a host")
	}
	if err != nil {
		return nil, fmt.Errorf("the runtime returned the streaming server URL %q: %w: check the configuration of the runtime",
			text, err)
	}
	return u, nil
}

// run runs a command to its end and answers with its output, with a kubelet's content type whatever that is (server.go,
// getRun). A client that leaves ends the command.
func (s *Streams) run(w http.ResponseWriter, r *http.Request) error {
	text := r.URL.Query().Get(paramRun)
	if strings.TrimSpace(text) == "" {
		return badRequest("query parameter %q is required", paramRun)
	}
	command := strings.Split(text, " ")
	id, _, err := s.container(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	result, err := answer.Of(ctx, func(done func(port.ExecResult, error)) {
		s.config.Runtime.Run(ctx, id, port.Words(command...), done)
	})
	if err != nil {
		return &refusal{http.StatusInternalServerError, err.Error()} // as every failure of a command
	}
	if result.ExitCode != 0 {
		return fmt.Errorf("command '%s' exited with %d: %s", text, result.ExitCode, result.Stderr)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(result.Stdout)+len(result.Stderr) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	for _, part := range [][]byte{result.Stdout, result.Stderr} {
		if _, err := w.Write(part); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
	return nil
}
