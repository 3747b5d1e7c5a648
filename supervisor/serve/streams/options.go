package streams

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/troupe-dev/troupe/actors/port"
)

// Parameters of the query, as the apiserver sends them.
const (
	paramStdin   = "input"
	paramStdout  = "output"
	paramStderr  = "error"
	paramTTY     = "tty"
	paramCommand = "command"
	paramPort    = "port"
	// /run has a parameter of its own: the command as one text, split at spaces.
	paramRun = "cmd"
)

// streamOptions parses the options of a stream. Only the query counts: a body is never read.
func streamOptions(query url.Values) (port.StreamOptions, error) {
	on := func(name string) bool { return query.Get(name) == "1" }
	o := port.StreamOptions{Stdin: on(paramStdin), Stdout: on(paramStdout), Stderr: on(paramStderr), TTY: on(paramTTY)}
	if o.TTY {
		o.Stderr = false // a terminal has one output
	}
	if !o.Stdin && !o.Stdout && !o.Stderr {
		return o, badRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	return o, nil
}

const maxPort = 65535

// ports are those that a client of plain WebSockets has to name; others name a port with each stream.
func ports(r *http.Request) ([]int32, error) {
	if !wsstream.IsWebSocketRequest(r) || wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		return nil, nil
	}
	texts := r.URL.Query()[paramPort]
	if len(texts) == 0 {
		return nil, badRequest("query parameter %q is required", paramPort)
	}
	out := make([]int32, 0, len(texts))
	for _, text := range strings.Split(strings.Join(texts, ","), ",") { // an apiserver joins them
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, badRequest("unable to parse %q as a port: it must be a number from 1 to %d", text, maxPort)
		}
		if n == 0 {
			return nil, badRequest("port %q must be > 0", text)
		}
		out = append(out, int32(n))
	}
	return out, nil
}
