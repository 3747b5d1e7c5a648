package simapi

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/apiclient/internal/patience"
)

// client is the API as seen by one node.
type client struct {
	s    *Server
	node string

	// The stage's lock guards all below.

	link Link
	// follows are the running watches, in order of their start.
	follows []*follow
	// stopPing cancels the timeout of a silent connection.
	stopPing func() bool
}

var _ port.API = (*client)(nil)

// Client is the API as seen by a node's agent: with latency and faults. The same name returns the
// same client.
func (s *Server) Client(node string) port.API {
	s.stage.Lock()
	defer s.stage.Unlock()
	return s.clientOf(node)
}

func (s *Server) clientOf(node string) *client {
	c := s.byNode[node]
	if c == nil {
		c = &client{s: s, node: node}
		s.byNode[node] = c
		s.clients = append(s.clients, c)
	}
	return c
}

// op is one running call.
type op = simport.Op

// begin makes a call: work runs under the lock at the end of the latency.
func (c *client) begin(ctx context.Context, call Call, fail func(error), work func(*op)) *op {
	s := c.s
	call.Node = c.node
	var fault Fault
	if s.cfg.Fault != nil {
		fault = s.cfg.Fault(call)
	}
	s.stage.Lock()
	defer s.stage.Unlock()
	return c.beginLocked(ctx, call, call.Key.String(), fault, fail, work)
}

func (c *client) beginLocked(
	ctx context.Context, call Call, object string, fault Fault, fail func(error), work func(*op),
) *op {
	s := c.s
	s.counts[call.Verb]++
	watches := call.Verb == List || call.Verb == Watch
	fault.LoseReply = fault.LoseReply || c.link == NoAnswers && !watches
	o := s.calls.Begin(call.Verb.String(), object, fault, fail)
	o.From = c
	switch {
	case o.Canceled(ctx):
	case s.down || c.link == Refused:
		o.RefuseAfter(refusedConnection, unreachable("connect: connection refused"))
	case c.link == Silent, c.link.deaf() && watches, fault.Hang:
		o.Hang(ctx)
	default:
		o.Start(ctx, s.cfg.Latencies[call.Verb].Sample(s.lat), nil, work)
	}
	return o
}

func unreachable(detail string) *port.Error {
	return &port.Error{Kind: port.Unavailable, Detail: detail}
}

// write is a call that returns an object.
func (c *client) write(
	ctx context.Context, call Call, done func(port.APIObject, error), work func() (port.APIObject, error),
) {
	c.begin(ctx, call, func(err error) { done(nil, err) }, func(o *op) {
		object, err := work()
		if err != nil {
			o.Refuse(portError(err))
			return
		}
		o.Reply(func() { done(object, nil) })
	})
}

// Get implements port.API.
func (c *client) Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error)) {
	c.write(ctx, Call{Verb: Get, Key: k}, done, func() (port.APIObject, error) { return c.s.get(k) })
}

// Create implements port.API.
func (c *client) Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	c.write(ctx, Call{Verb: Create, Key: port.APIKeyOf(o)}, done, func() (port.APIObject, error) { return c.s.create(o) })
}

// Update implements port.API.
func (c *client) Update(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	c.write(ctx, Call{Verb: Update, Key: port.APIKeyOf(o)}, done, func() (port.APIObject, error) {
		return c.s.update(o, false)
	})
}

// Patch implements port.API.
func (c *client) Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	c.write(ctx, Call{Verb: Patch, Key: p.Key, Status: p.Status}, done, func() (port.APIObject, error) {
		return c.s.patch(p)
	})
}

// Delete implements port.API.
func (c *client) Delete(ctx context.Context, d port.APIDelete, done func(error)) {
	c.begin(ctx, Call{Verb: Delete, Key: d.Key}, done, func(o *op) {
		if err := c.s.remove(d); err != nil {
			o.Refuse(portError(err))
			return
		}
		o.Reply(func() { done(nil) })
	})
}

// CreateToken implements port.API.
func (c *client) CreateToken(
	ctx context.Context, namespace, account string, spec authenticationv1.TokenRequestSpec,
	done func(authenticationv1.TokenRequestStatus, error),
) {
	k := port.APIKey{Kind: port.ServiceAccountKind, Namespace: namespace, Name: account}
	fail := func(err error) { done(authenticationv1.TokenRequestStatus{}, err) }
	c.begin(ctx, Call{Verb: CreateToken, Key: k}, fail, func(o *op) {
		status, err := c.s.token(namespace, account, spec)
		if err != nil {
			o.Refuse(portError(err))
			return
		}
		o.Reply(func() { done(status, nil) })
	})
}

// portError translates an error of the API for the port.
func portError(err error) *port.Error {
	e := &port.Error{Detail: err.Error()}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return e
	}
	switch status.ErrStatus.Reason {
	case metav1.StatusReasonNotFound:
		e.Kind = port.NotFound
	case metav1.StatusReasonAlreadyExists:
		e.Kind = port.AlreadyExists
	case metav1.StatusReasonConflict:
		e.Kind = port.Conflict
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest:
		e.Kind = port.Invalid
	default:
		e.Kind = port.Other
	}
	return e
}

// pingTimeout is how long a silent connection is kept.
const pingTimeout = patience.ReadIdle + patience.Ping
