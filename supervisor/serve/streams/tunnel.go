package streams

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
	protocol "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/troupe-dev/troupe/actors/rescue"
)

const (
	// answerLimit is how much of the runtime's refusal a client is shown.
	answerLimit = 4 << 10
	// bufferSize is that of messages to a client.
	bufferSize = 32 << 10
)

// tunnel carries SPDY in the messages of a WebSocket: the client speaks it with the runtime, and here
// nothing is looked at (KEP-4006, SPDY/3.1+portforward.k8s.io).
type tunnel struct{ l *link }

// ServeHTTP implements http.Handler.
func (t tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var wished []string
	for _, p := range websocket.Subprotocols(r) {
		if bare, ok := strings.CutPrefix(p, protocol.WebsocketsSPDYTunnelingPrefix); ok &&
			strings.HasSuffix(p, protocol.KubernetesSuffix) {
			wished = append(wished, bare)
		}
	}
	runtime, chosen, err := t.dial(r, wished)
	if err != nil {
		responder(t).Error(w, r, err)
		return
	}
	defer runtime.Close() //nolint:errcheck // it is the end of it in any case
	upgrader := websocket.Upgrader{
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		Subprotocols: []string{protocol.WebsocketsSPDYTunnelingPrefix + chosen},
		// No browser comes here: the client is authenticated.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the client was told
	}
	client := portforward.NewTunnelingConnection("node", conn)
	defer client.Close() //nolint:errcheck // see above
	ended := make(chan struct{}, 2)
	carry := func(to io.WriteCloser, from io.ReadCloser) {
		defer func() { ended <- struct{}{} }()
		defer from.Close()                                                     //nolint:errcheck // see above
		defer to.Close()                                                       //nolint:errcheck // see above
		io.CopyBuffer(struct{ io.Writer }{to}, from, make([]byte, bufferSize)) //nolint:errcheck // a side has gone
	}
	rescue.Go(r.Context(), func() { carry(runtime, client) }, rescue.Answered) // both sides are closed
	carry(client, runtime)
	<-ended
	<-ended
}

// dial opens the connection to the runtime's streaming server, in one of the protocols.
func (t tunnel) dial(r *http.Request, protocols []string) (io.ReadWriteCloser, string, error) {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, t.l.to.String(), nil)
	if err != nil {
		return nil, "", err
	}
	ask.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	ask.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	ask.Header[http.CanonicalHeaderKey(httpstream.HeaderProtocolVersion)] = protocols
	answer, err := t.l.transport.RoundTrip(ask)
	if err != nil {
		return nil, "", err
	}
	both, ok := answer.Body.(io.ReadWriteCloser)
	if answer.StatusCode != http.StatusSwitchingProtocols || !ok ||
		!strings.EqualFold(answer.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31) {
		why, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
		return nil, "", errors.Join(fmt.Errorf("it does not support %s: %s %s", spdy.HeaderSpdy31, answer.Status, why), err,
			answer.Body.Close())
	}
	return both, answer.Header.Get(httpstream.HeaderProtocolVersion), nil
}
