package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/actors/port"
)

func TestTranslateError(t *testing.T) {
	pods := v1.Resource("pods")
	onWire := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api/v1/pods", Err: err}
	}
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	status := func(code int, verb string) error {
		return apierrors.NewGenericServerResponse(code, verb, pods, "web", "what\nit said", 0, true)
	}
	for _, c := range []struct {
		name   string
		err    error
		ctxErr error
		want   port.ErrorKind
		says   string
	}{
		{"not found", apierrors.NewNotFound(pods, "web"), nil, port.NotFound, `pods "web" not found`},
		{"path not found", status(404, "GET"), nil, port.Unsupported, ""},
		{"exists", apierrors.NewAlreadyExists(pods, "web"), nil, port.AlreadyExists, ""},
		{"conflict", apierrors.NewConflict(pods, "web", errors.New("changed")), nil, port.Conflict, "changed"},
		{"unauthorized", apierrors.NewUnauthorized("Unauthorized"), nil, port.Unauthorized, "Unauthorized: the kubeconfig names no credential"},
		{"forbidden", apierrors.NewForbidden(pods, "web", errors.New("no")), nil, port.Forbidden, ""},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{field.Required(field.NewPath("spec"), "")}), nil, port.Invalid, "spec: Required value"},
		{"bad request", apierrors.NewBadRequest("what"), nil, port.Invalid, "what"},
		{"too large", apierrors.NewRequestEntityTooLargeError("big"), nil, port.Invalid, ""},
		{"too many", apierrors.NewTooManyRequests("later", 1), nil, port.TooManyRequests, "later"},
		{"timeout", apierrors.NewTimeoutError("slow", 1), nil, port.Deadline, ""},
		{"server timeout", apierrors.NewServerTimeout(pods, "get", 1), nil, port.Unavailable, ""},
		{"unavailable", apierrors.NewServiceUnavailable("down"), nil, port.Unavailable, "down"},
		{"bad gateway", status(502, "GET"), nil, port.Unavailable, ""},
		{"gateway timeout", status(504, "GET"), nil, port.Deadline, ""},
		{"method", apierrors.NewMethodNotSupported(pods, "patch"), nil, port.Unsupported, ""},
		{"internal", apierrors.NewInternalError(errors.New("oops")), nil, port.Other, "oops"},
		{"gone", apierrors.NewResourceExpired("too old"), nil, port.Other, ""},

		{"refused", onWire(dial(syscall.ECONNREFUSED)), nil, port.Unavailable, "dial tcp: connection refused"},
		{"refused, bare", dial(syscall.ECONNREFUSED), nil, port.Unavailable, ""},
		{"dial timeout", onWire(dial(context.DeadlineExceeded)), nil, port.Unavailable, ""},
		{"reset", onWire(syscall.ECONNRESET), nil, port.Unavailable, ""},
		{"eof", onWire(io.EOF), nil, port.Unavailable, "EOF"},
		{"lost", errors.New("http2: client connection lost"), nil, port.Unavailable, ""},
		{"untrusted", onWire(x509.UnknownAuthorityError{}), nil, port.Unavailable, "unknown authority"},
		{"refused certificate", onWire(errors.New("remote error: tls: expired certificate")), nil, port.Unauthorized, "expired certificate"},
		{"plugin", onWire(errors.New("getting credentials: exec: executable aws not found")), nil, port.Unauthorized, "executable aws not found"},
		{"own limit", fmt.Errorf("client rate limiter Wait returned an error: %w", context.DeadlineExceeded), nil, port.TooManyRequests, ""},
		{"something", errors.New("some\n  thing"), nil, port.Other, "some thing"},
		{"own finding", &port.Error{Kind: port.Conflict, Detail: "another UID"}, nil, port.Conflict, "another UID"},

		{"our deadline", onWire(context.DeadlineExceeded), context.DeadlineExceeded, port.Deadline, "no answer in time"},
		{"given up", onWire(context.Canceled), context.Canceled, port.Canceled, "the agent stopped waiting"},
		{"answered in the last moment", apierrors.NewNotFound(pods, "web"), context.DeadlineExceeded, port.NotFound, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := &Client{config: Config{REST: &rest.Config{}}}
			err := client.translateError("get", "Pod default/web", c.err, c.ctxErr)
			if port.KindOf(err) != c.want {
				t.Errorf("kind is %v, want %v: %v", port.KindOf(err), c.want, err)
			}
			if !strings.HasPrefix(err.Error(), "get Pod default/web: ") || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %q, want one line that names verb and object and says %q", err, c.says)
			}
			if strings.Contains(err.Error(), "https://") {
				t.Errorf("error %q repeats the URL", err)
			}
		})
	}
	if (&Client{}).translateError("get", "Pod x", nil, context.Canceled) != nil {
		t.Error("no error became one")
	}
	long := (&Client{}).translateError("get", "Pod x", errors.New(strings.Repeat("ä", maxDetail)), nil)
	if n := len(long.Error()); n > maxDetail+50 {
		t.Errorf("an error has %d bytes", n)
	}
}

func TestAnotherUID(t *testing.T) {
	invalid := func(field string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Field: field}},
		}}}
	}
	for err, want := range map[error]bool{
		invalid("metadata.uid"): true, invalid("metadata.name"): false, errors.New("metadata.uid"): false,
		apierrors.NewInvalid(schema.GroupKind{}, "x", nil): false,
	} {
		if anotherUID(err) != want {
			t.Errorf("%v: %v, want %v", err, !want, want)
		}
	}
}
