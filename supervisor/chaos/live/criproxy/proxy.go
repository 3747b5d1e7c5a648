package criproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lateLimit bounds a call that is made after its caller has given up.
const lateLimit = 2 * time.Minute

// largest is the size of the largest message, in bytes: 16 MiB as in CRI clients, and some room.
const largest = 32 << 20

// Config says what to stand in front of. Both must be set.
type Config struct {
	// Socket is the path to listen on. What is there is replaced.
	Socket string
	// Target is the path of the runtime's own socket.
	Target string
	// Fault is asked for each call, before those that were injected, and says what goes wrong with
	// it: nil for nothing. It is one way to see all calls. Nil: there is nobody to ask.
	Fault func(Call) *Fault
	// Event says what becomes of each event of the runtime on its way to the agent. Nil: all are
	// passed on.
	Event func(*runtimeapi.ContainerEventResponse) Fate
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Socket == "" || c.Target == "" {
		return errors.New("criproxy needs a Socket and a Target")
	}
	if c.Socket == c.Target {
		return errors.New("criproxy cannot stand in front of itself")
	}
	return nil
}

// Proxy is a running proxy. Its methods can be called from any goroutine.
type Proxy struct {
	config Config
	server *grpc.Server
	conn   *grpc.ClientConn
	names  *names
	served chan struct{}

	ctx  context.Context // ends with Close: late calls must not outlive the proxy
	stop context.CancelFunc

	mu    sync.Mutex
	calls map[string]int
	rules []*Rule
}

// Start listens and serves. The runtime need not be there yet.
func Start(config Config) (*Proxy, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	again := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, MaxDelay: 500 * time.Millisecond}
	conn, err := grpc.NewClient("unix://"+config.Target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 2 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(largest)))
	if err != nil {
		return nil, fmt.Errorf("start criproxy: %w", err)
	}
	if err := os.RemoveAll(config.Socket); err != nil {
		return nil, errors.Join(fmt.Errorf("start criproxy: %w", err), conn.Close())
	}
	listener, err := net.Listen("unix", config.Socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start criproxy: %w", err), conn.Close())
	}
	p := &Proxy{config: config, conn: conn, names: newNames(), served: make(chan struct{}), calls: map[string]int{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(largest),
		grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error { return p.handle(in) }))
	go func() {
		defer close(p.served)
		_ = p.server.Serve(listener) // ends with Close
	}()
	return p, nil
}

// Endpoint is the proxy's socket as a URL.
func (p *Proxy) Endpoint() string { return "unix://" + p.config.Socket }

// Inject puts a fault in force. Of several that fit a call, the oldest hits it.
func (p *Proxy) Inject(fault Fault) (*Rule, error) {
	if err := fault.Validate(); err != nil {
		return nil, err
	}
	r := newRule(fault)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r, nil
}

// Release ends all rules and faults, and lets go what waits.
func (p *Proxy) Release() {
	p.mu.Lock()
	rules := p.rules
	p.rules = nil
	p.mu.Unlock()
	for _, r := range rules {
		r.Release()
	}
}

// Calls counts the calls so far by method, those that were hit included.
func (p *Proxy) Calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}

// Close ends the proxy. What waits is dropped.
func (p *Proxy) Close() error {
	p.stop()
	p.server.Stop()
	<-p.served
	return p.conn.Close()
}

func (p *Proxy) handle(in grpc.ServerStream) error {
	fullMethod, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "criproxy: a call without a method")
	}
	request := new(frame)
	if err := in.RecvMsg(request); err != nil {
		return err // no CRI method has a stream of requests
	}
	c := out{proxy: p, method: fullMethod, request: request, call: p.names.read(fullMethod, request.bytes)}
	md, _ := metadata.FromIncomingContext(in.Context())
	c.metadata = md
	rule := p.arrived(c.call)
	if rule == nil {
		return c.copy(in.Context(), in)
	}
	if m := method(fullMethod); m == nil || m.IsStreamingServer() {
		return c.copyUnder(rule, in)
	}
	return c.answerUnder(rule, in)
}

// arrived counts the call and finds the rule that hits it.
func (p *Proxy) arrived(c Call) *Rule {
	var fault *Fault
	if p.config.Fault != nil {
		fault = p.config.Fault(c)
	}
	p.mu.Lock()
	p.calls[c.Method]++
	rules := p.rules
	if fault != nil {
		r := newRule(*fault)
		r.fault.Times = 1
		p.rules = append(p.rules, r)
		rules = []*Rule{r}
	}
	p.mu.Unlock()
	for _, r := range rules {
		if r.take(c) {
			return r
		}
	}
	return nil
}

// out is a call on its way to the runtime.
type out struct {
	proxy    *Proxy
	method   string
	request  *frame
	metadata metadata.MD
	call     Call
}

// copy makes the call and passes every answer on as it comes.
func (c out) copy(ctx context.Context, in grpc.ServerStream) error {
	if c.call.Method == "GetContainerEvents" && c.proxy.config.Event != nil {
		return c.copyEvents(ctx, in)
	}
	return c.each(ctx, in.SetTrailer, func(answer *frame) error { return in.SendMsg(answer) })
}

// each makes the call and gives every answer to next.
func (c out) each(ctx context.Context, trailer func(metadata.MD), next func(*frame) error) error {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, c.metadata))
	defer cancel()
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := c.proxy.conn.NewStream(ctx, both, c.method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(c.request); err != nil && !errors.Is(err, io.EOF) { // EOF: RecvMsg says more
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		answer := new(frame)
		err := stream.RecvMsg(answer)
		if errors.Is(err, io.EOF) {
			trailer(stream.Trailer())
			return nil
		}
		if err != nil {
			return err
		}
		c.proxy.names.learn(c.method, c.call, answer.bytes)
		if err := next(answer); err != nil {
			return err
		}
	}
}

// copyUnder is copy for a stream that a rule hit.
func (c out) copyUnder(rule *Rule, in grpc.ServerStream) error {
	defer rule.late.Done()
	switch rule.fault.Do {
	case Refuse, LoseAnswer:
		return rule.fault.err()
	case Hold, Withhold, Delay, Slow:
		if err := rule.pause(in.Context()); err != nil {
			return status.FromContextError(err).Err()
		}
	case Hang:
		if err := rule.pause(in.Context()); err != nil {
			return status.FromContextError(err).Err()
		}
		return rule.fault.err()
	}
	return c.copy(in.Context(), in)
}

// answerUnder makes a call that a rule hit. What becomes of the call does not depend on whether
// the caller is there still, unless the rule says so.
func (c out) answerUnder(rule *Rule, in grpc.ServerStream) error {
	switch rule.fault.Do {
	case Refuse:
		rule.late.Done()
		return rule.fault.err()
	case Hang, Slow:
		return c.copyUnder(rule, in) // what happens does depend on it
	default:
	}
	type outcome struct {
		answers []*frame
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		defer rule.late.Done()
		var o outcome
		o.answers, o.err = c.make(rule)
		done <- o
	}()
	select {
	case <-in.Context().Done():
		return status.FromContextError(in.Context().Err()).Err()
	case o := <-done:
		for _, answer := range o.answers {
			if err := in.SendMsg(answer); err != nil {
				return err
			}
		}
		return o.err
	}
}

func (c out) make(rule *Rule) (answers []*frame, err error) {
	if do := rule.fault.Do; do == Hold || do == Delay {
		if err := rule.pause(c.proxy.ctx); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	ctx, cancel := context.WithTimeout(c.proxy.ctx, lateLimit)
	defer cancel()
	err = c.each(ctx, func(metadata.MD) {}, func(answer *frame) error {
		answers = append(answers, answer)
		return nil
	})
	if rule.fault.Do == LoseAnswer {
		return nil, rule.fault.err()
	}
	if rule.fault.Do == Withhold {
		if err := rule.pause(c.proxy.ctx); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	return answers, err
}
