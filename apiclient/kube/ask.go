package kube

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/actors/port"
)

// Calls that are not in the port, for the node's own server and its certificates. They are
// synchronous, as their callers expect.

// asked are the API groups and lanes of these calls.
var asked = []restKey{
	{authenticationv1.SchemeGroupVersion, strangers}, {authenticationv1.SchemeGroupVersion, others},
	{authorizationv1.SchemeGroupVersion, strangers}, {authorizationv1.SchemeGroupVersion, others},
	{certificatesv1.SchemeGroupVersion, others},
}

// reviewLane is that of a review for a client of the node.
func reviewLane(known bool) lane {
	if known {
		return others
	}
	return strangers
}

// ReviewToken fills in the status of a review: whose token it is.
func (c *Client) ReviewToken(ctx context.Context, r *authenticationv1.TokenReview, known bool) error {
	return c.ask(ctx, "create", "TokenReview", r, func() *rest.Request {
		client := c.rest[restKey{authenticationv1.SchemeGroupVersion, reviewLane(known)}]
		return client.Post().Resource("tokenreviews").Body(r.DeepCopy())
	})
}

// ReviewAccess fills in the status of a review: whether a user may do something.
func (c *Client) ReviewAccess(ctx context.Context, r *authorizationv1.SubjectAccessReview, known bool) error {
	return c.ask(ctx, "create", "SubjectAccessReview", r, func() *rest.Request {
		client := c.rest[restKey{authorizationv1.SchemeGroupVersion, reviewLane(known)}]
		return client.Post().Resource("subjectaccessreviews").Body(r.DeepCopy())
	})
}

// RequestCertificate creates a certificate request, and fills in what the apiserver stored.
func (c *Client) RequestCertificate(ctx context.Context, r *certificatesv1.CertificateSigningRequest) error {
	return c.ask(ctx, "create", "CertificateSigningRequest "+r.Name, r, func() *rest.Request {
		return c.requests().Post().Resource(requests).Body(r.DeepCopy())
	})
}

// CertificateRequest reads a certificate request.
func (c *Client) CertificateRequest(
	ctx context.Context, name string,
) (*certificatesv1.CertificateSigningRequest, error) {
	r := &certificatesv1.CertificateSigningRequest{}
	return r, c.ask(ctx, "get", "CertificateSigningRequest "+name, r, func() *rest.Request {
		return c.requests().Get().Resource(requests).Name(name)
	})
}

const requests = "certificatesigningrequests"

func (c *Client) requests() *rest.RESTClient {
	return c.rest[restKey{certificatesv1.SchemeGroupVersion, others}]
}

// ask makes a request, and decodes the answer into an object.
func (c *Client) ask(
	ctx context.Context, verb, object string, into runtime.Object, request func() *rest.Request,
) error {
	if !c.enter() {
		return &port.Error{Kind: port.Canceled, Verb: verb, Object: object, Detail: "the client is closed"}
	}
	defer c.calls.Done()
	ctx, cancel := c.within(ctx, readTimeout)
	defer cancel()
	return c.translateError(verb, object, request().Do(ctx).Into(into), ctx.Err())
}
