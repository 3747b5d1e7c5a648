package kube

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// maxDetail bounds the apiserver's message, which goes into logs and pod statuses.
const maxDetail = 2048

// translateError turns a request's error into a *port.Error, nil into nil. ctxErr is the error of
// the call's own context.
func (c *Client) translateError(verb, object string, err, ctxErr error) error {
	if err == nil {
		return nil
	}
	out := &port.Error{Verb: verb, Object: object}
	switch {
	case ctxErr == nil || answered(err):
		out.Kind, out.Detail = kindOfError(err), oneLine(err)
	case errors.Is(ctxErr, context.DeadlineExceeded):
		out.Kind, out.Detail = port.Deadline, "no answer in time"
	default:
		out.Kind, out.Detail = port.Canceled, "the agent stopped waiting for the call"
	}
	if out.Kind == port.Unauthorized {
		// The apiserver gives no further reason.
		out.Detail += ": " + DescribeCredential(c.config.REST)
	}
	return out
}

// answered reports whether the apiserver itself returned the error.
func answered(err error) bool {
	_, ok := statusOf(err)
	return ok
}

// statusOf is the apiserver's answer within err.
func statusOf(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}

// kindOfError finds the kind of a failure. Without a reason of the API or a specific HTTP code,
// it is Other.
func kindOfError(err error) port.ErrorKind {
	if e, ok := errors.AsType[*port.Error](err); ok { // our own error
		return e.Kind
	}
	if status, ok := statusOf(err); ok {
		return kindOfStatus(err, status)
	}
	words := err.Error()
	switch {
	case strings.Contains(words, "client rate limiter Wait"):
		return port.TooManyRequests // the client's own limit: Config.QPS
	case strings.Contains(words, "getting credentials"),
		strings.Contains(words, "remote error: tls:"),
		strings.Contains(words, "tls: private key does not match"):
		// A credential plugin failed; or a proxy checks certificates in the handshake, unlike the
		// apiserver; or only one file of a pair is new.
		return port.Unauthorized
	}
	if _, ok := errors.AsType[*url.Error](err); ok || trustError(err) || networkError(err) {
		return port.Unavailable // also a dial that timed out, although that looks like a deadline
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return port.Deadline
	case errors.Is(err, context.Canceled):
		return port.Canceled
	}
	return port.Other
}

// anotherUID reports whether a patch was refused because the object has another UID. To the
// apiserver that is a change of an immutable field.
func anotherUID(err error) bool {
	s, ok := statusOf(err)
	return ok && s.Reason == metav1.StatusReasonInvalid && s.Details != nil &&
		slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// kindOfStatus finds the kind of an answer (metav1.Status).
func kindOfStatus(err error, s metav1.Status) port.ErrorKind {
	switch s.Reason {
	case metav1.StatusReasonNotFound:
		// Not the object but the whole resource is missing: a path that is not served.
		if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			return port.Unsupported
		}
		return port.NotFound
	case metav1.StatusReasonAlreadyExists:
		return port.AlreadyExists
	case metav1.StatusReasonConflict:
		return port.Conflict
	case metav1.StatusReasonUnauthorized:
		return port.Unauthorized
	case metav1.StatusReasonForbidden:
		return port.Forbidden
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge:
		return port.Invalid
	case metav1.StatusReasonTooManyRequests:
		return port.TooManyRequests
	case metav1.StatusReasonTimeout:
		return port.Deadline
	case metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable:
		return port.Unavailable
	case metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonUnsupportedMediaType:
		return port.Unsupported
	default:
		switch s.Code {
		case http.StatusBadGateway, http.StatusServiceUnavailable:
			return port.Unavailable // a proxy's answer
		}
		return port.Other
	}
}

// trustError reports whether the server could not prove its identity.
func trustError(err error) bool {
	for _, is := range []func(error) bool{
		func(err error) bool { _, ok := errors.AsType[x509.UnknownAuthorityError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.CertificateInvalidError](err); return ok },
		func(err error) bool { _, ok := errors.AsType[x509.HostnameError](err); return ok },
	} {
		if is(err) {
			return true
		}
	}
	return false
}

// networkError reports whether the connection, and not an answer, ended the request.
func networkError(err error) bool {
	words := err.Error()
	for _, known := range []string{
		"connection refused", "connection reset", "broken pipe", "client connection lost", "use of closed network connection",
		"no route to host", "network is unreachable", "no such host", "i/o timeout", "TLS handshake timeout", "EOF", "GOAWAY",
		"server closed", "dial tcp",
	} {
		if strings.Contains(words, known) {
			return true
		}
	}
	return false
}

// oneLine is the message of err on one line: that of an answer, or the one wrapped in a
// *url.Error, without method and URL.
func oneLine(err error) string {
	words := err.Error()
	if e, ok := errors.AsType[*port.Error](err); ok {
		words = e.Detail
	} else if status, ok := statusOf(err); ok {
		words = cmp.Or(status.Message, words)
	} else if e, ok := errors.AsType[*url.Error](err); ok {
		words = e.Err.Error()
	}
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > maxDetail {
		words = strings.ToValidUTF8(words[:maxDetail], "") + "…"
	}
	return words
}
