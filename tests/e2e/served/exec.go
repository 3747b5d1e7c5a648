package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/troupe-dev/troupe/tests/check"
)

// streams is where clients of Exec get their streams, at a port of this machine. A command in a stream is what ExecSync
// makes of it: it has no input, and its output comes at its end.
type streams struct {
	streaming.Server
	web http.Server
}

// openStreams begins to serve the streams of a runtime.
func openStreams(of runtimeapi.RuntimeServiceClient) (_ *streams, err error) {
	defer check.Return(&err)
	listener := check.Must(net.Listen("tcp", "127.0.0.1:0"))
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: listener.Addr().String()}
	s := &streams{}
	if s.Server, err = streaming.NewServer(config, commands{of}); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.web = http.Server{Handler: s.Server, ReadHeaderTimeout: 5 * time.Second}
	go s.web.Serve(listener) //nolint:errcheck // it ends with close
	return s, nil
}

func (s *streams) close() error { return s.web.Close() }

// commands are the containers' far sides of streams.
type commands struct {
	of runtimeapi.RuntimeServiceClient
}

// Exec implements streaming.Runtime.
func (c commands) Exec(
	ctx context.Context, id string, command []string, in io.Reader, out, errs io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize,
) (err error) {
	defer check.Return(&err)
	if in != nil {
		return errors.New("the input of a command is not played")
	}
	answer := check.Must(c.of.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command}))
	if out != nil {
		check.Must(out.Write(answer.GetStdout()))
	}
	if errs != nil {
		check.Must(errs.Write(answer.GetStderr()))
	}
	if code := answer.GetExitCode(); code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command %q ended with %d", command, code), Code: int(code)}
	}
	return nil
}

// Attach implements streaming.Runtime.
func (commands) Attach(
	context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize,
) error {
	return errors.New("attach is not played")
}

// PortForward implements streaming.Runtime.
func (commands) PortForward(context.Context, string, int32, io.ReadWriteCloser) error {
	return errors.New("port forwarding is not played")
}
