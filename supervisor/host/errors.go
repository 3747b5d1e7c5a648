package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/troupe-dev/troupe/actors/port"
)

// failure is an error of which the kind is known.
type failure struct {
	kind   port.ErrorKind
	detail string
}

func (f *failure) Error() string { return f.detail }

func fail(kind port.ErrorKind, format string, args ...any) error {
	return &failure{kind: kind, detail: fmt.Sprintf(format, args...)}
}

// asError makes err what the port promises.
func asError(err error, verb, object string) *port.Error {
	if e, ok := errors.AsType[*port.Error](err); ok {
		return e
	}
	e := &port.Error{Kind: kindOf(err), Verb: verb, Object: object}
	e.Detail = strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Detail = ""
	}
	return e
}

func kindOf(err error) port.ErrorKind {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.kind
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return port.Deadline
	case errors.Is(err, context.Canceled):
		return port.Canceled
	case errors.Is(err, fs.ErrNotExist):
		return port.NotFound
	}
	return port.Other
}
