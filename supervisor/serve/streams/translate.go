package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	protocol "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	upgrade "k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// translator speaks SPDY with the runtime for a client of v5.channel.k8s.io (KEP-4006): WebSockets have
// channels, which are SPDY's streams.
//
//	client ──[0, stdin…]──► channel 0 ──► stdin  stream ──► runtime
//	       ◄─[1, out…]──── channel 1 ◄── stdout stream ◄──
//	       ◄─[2, …]─────── channel 2 ◄── stderr stream ◄──
//	       ◄─[3, status]── channel 3     how it ended
//	       ──[4, size]───► channel 4 ──► resize stream ──►
//
// k8s.io/apiserver has one as well, in a package that brings the client of every type of Kubernetes
// (docs/decisions/0020).
type translator struct {
	l *link
	o port.StreamOptions
}

// ServeHTTP implements http.Handler.
func (t translator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, channels, err := t.open(w, r)
	if err != nil {
		return // the client was told
	}
	defer conn.Close() //nolint:errcheck // it is the end of it in any case
	status := statusOf(t.stream(r.Context(), channels))
	text, err := json.Marshal(status)
	if err != nil {
		return // it can be written
	}
	conn.SetWriteDeadline(clientLinger)
	channels[protocol.StreamErr].Write(text) //nolint:errcheck // a client that is gone
}

// open makes the WebSocket, and says so in a message without content: a client of a process that is
// silent waits for it.
func (t translator) open(w http.ResponseWriter, r *http.Request) (*wsstream.Conn, []io.ReadWriteCloser, error) {
	kinds := []wsstream.ChannelType{
		protocol.StreamStdIn: wsstream.IgnoreChannel, protocol.StreamStdOut: wsstream.IgnoreChannel,
		protocol.StreamStdErr: wsstream.IgnoreChannel,
		protocol.StreamErr:    wsstream.WriteChannel, protocol.StreamResize: wsstream.ReadChannel,
	}
	first := protocol.StreamErr
	if t.o.Stdin {
		kinds[protocol.StreamStdIn] = wsstream.ReadChannel
	}
	if t.o.Stderr {
		kinds[protocol.StreamStdErr], first = wsstream.WriteChannel, protocol.StreamStdErr
	}
	if t.o.Stdout {
		kinds[protocol.StreamStdOut], first = wsstream.WriteChannel, protocol.StreamStdOut
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		protocol.StreamProtocolV5Name: {Binary: true, Channels: kinds},
	})
	_, channels, err := conn.Open(w, r)
	if err != nil {
		return nil, nil, err
	}
	if _, err := channels[first].Write(nil); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, channels, nil
}

// stream connects the channels with the runtime's streams, until the process has ended.
func (t translator) stream(ctx context.Context, channels []io.ReadWriteCloser) error {
	// With few pings: see pingless.
	config := spdy.RoundTripperConfig{UpgradeTransport: t.l.transport, PingPeriod: awake}
	tripper, err := spdy.NewRoundTripperWithConfig(config)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutorRejectRedirects(tripper, upgrade.NewUpgraderForStreaming(tripper),
		http.MethodPost, t.l.to)
	if err != nil {
		return err
	}
	var o remotecommand.StreamOptions
	if t.o.Stdin {
		o.Stdin = channels[protocol.StreamStdIn]
	}
	if t.o.Stdout {
		o.Stdout = channels[protocol.StreamStdOut]
	}
	if t.o.Stderr {
		o.Stderr = channels[protocol.StreamStdErr]
	}
	sizes := resizes(ctx, channels[protocol.StreamResize])
	if t.o.TTY {
		o.Tty, o.TerminalSizeQueue = true, sizes
	}
	return executor.StreamWithContext(ctx, o)
}

// queue has the sizes of a client's terminal.
type queue chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (q queue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &size
}

// sizeLimit is how many bytes are read for one size, which is some forty long.
const sizeLimit = 4 << 10

// resizes reads them, until the channel ends, or ctx, or something is no size.
func resizes(ctx context.Context, from io.Reader) queue {
	q := make(queue)
	rescue.Go(ctx, func() {
		defer close(q)
		short := &io.LimitedReader{R: from}
		for decoder := json.NewDecoder(short); ; {
			var size remotecommand.TerminalSize
			if short.N = sizeLimit; decoder.Decode(&size) != nil {
				return
			}
			select {
			case q <- size:
			case <-ctx.Done():
				return
			}
		}
	}, rescue.Answered) // the terminal keeps its size
	return q
}

// statusOf is how a process ended, as clients want to be told.
func statusOf(err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.Status()
	}
	if end, ok := errors.AsType[exec.CodeExitError](err); ok && end.Exited() {
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: protocol.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", end),
			Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: protocol.ExitCodeCauseType, Message: strconv.Itoa(end.ExitStatus())}},
			},
		}
	}
	return apierrors.NewInternalError(err).Status()
}
