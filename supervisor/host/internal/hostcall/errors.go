package hostcall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/troupe-dev/troupe/actors/port"
)

// Failure is an error of a known kind.
type Failure struct {
	Kind   port.ErrorKind
	Detail string
}

func (f *Failure) Error() string { return f.Detail }

// Failf makes a Failure.
func Failf(kind port.ErrorKind, format string, args ...any) error {
	return &Failure{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// asError makes err what the port promises.
func asError(err error, verb, object string) *port.Error {
	if e, ok := errors.AsType[*port.Error](err); ok {
		return e
	}
	e := &port.Error{Kind: KindOf(err), Verb: verb, Object: object}
	e.Detail = strings.Join(strings.Fields(err.Error()), " ")
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Detail = ""
	}
	return e
}

// KindOf is the kind of an error.
func KindOf(err error) port.ErrorKind {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Kind
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
