package port

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorKind is what a decision needs to know about a failure.
type ErrorKind uint8

const (
	// Other: none of the kinds below; see the message.
	Other ErrorKind = iota
	// NotFound: the sandbox, container or image does not exist.
	NotFound
	// NameReserved: an earlier call with the same name is still under way, or succeeded. Wait and list
	// again.
	NameReserved
	// Unavailable: the far side does not answer (socket gone, restarting).
	Unavailable
	// Deadline: no answer in time. It may still have worked.
	Deadline
	// Canceled: the caller gave up first.
	Canceled
	// InvalidConfig: the container can't be made as asked (CreateContainerConfigError).
	InvalidConfig
	// ImageNotFound: the registry, or the runtime, has no such image.
	ImageNotFound
	// InvalidImageName: the reference can't be parsed.
	InvalidImageName
	// Unsupported: this runtime has no such call.
	Unsupported
	// StateConflict: the object is in another state than the call needs.
	StateConflict
	// AlreadyExists: the apiserver has an object of that name.
	AlreadyExists
	// Conflict: the object was changed or replaced meanwhile.
	Conflict
	// Unauthorized: the credential is wrong or has expired.
	Unauthorized
	// Forbidden: this node is not allowed to do that.
	Forbidden
	// Invalid: the apiserver rejects the object as invalid.
	Invalid
	// TooManyRequests: the apiserver asks to try again later, or the runtime has promised too many streams.
	TooManyRequests
	// Stuck: the runtime can't remove it until it is repaired by hand; the message says how.
	Stuck
	// NetworkNotReady: the runtime has no network for pods yet (no CNI configuration).
	NetworkNotReady
	// NotCalled: the far side could not be asked, so the call has had no effect.
	NotCalled
	// Panic: the agent's own code panicked in the call. It may have worked.
	Panic
)

var kindNames = [...]string{
	"error", "not found", "name reserved", "unavailable", "deadline exceeded", "canceled",
	"invalid configuration", "image not found", "invalid image name", "unsupported", "state conflict",
	"already exists", "conflict", "unauthorized", "forbidden", "invalid", "too many requests", "stuck",
	"network not ready", "not called", "panic",
}

func (k ErrorKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is a failure at a port, translated at the border: the call, its object, the kind of
// failure, and the far side's message.
type Error struct {
	Kind   ErrorKind
	Verb   string // RunPodSandbox
	Object string // default/web
	Detail string // the far side's message, one line
}

func (e *Error) Error() string {
	s := e.Verb
	if e.Object != "" {
		s += " " + e.Object
	}
	if e.Kind != Other {
		s += ": " + e.Kind.String()
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Panicked makes the error of a call whose work has panicked (package rescue).
func Panicked(verb, object string) func(reason string) error {
	return func(reason string) error {
		return &Error{Kind: Panic, Verb: verb, Object: object, Detail: strings.TrimPrefix(reason, "panic: ")}
	}
}

// Unanswered reports whether a failure of a kind is the lack of an answer: the call may have worked, or may still do.
func Unanswered(k ErrorKind) bool {
	return k == Unavailable || k == Deadline || k == Canceled || k == Panic
}

// Answered reports whether an error is an answer, and not the lack of one.
func Answered(err error) bool { return !Unanswered(KindOf(err)) }

// Detail is the far side's message, or all of an error that has none.
func Detail(err error) string {
	if e, ok := err.(*Error); ok && e.Detail != "" {
		return e.Detail
	}
	return err.Error()
}

// KindOf returns the kind of err; Other if it is not an *Error.
func KindOf(err error) ErrorKind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Other
}
