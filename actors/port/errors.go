package port

import (
	"errors"
	"fmt"
)

// ErrorKind is the little that a decision needs to know of a failure.
type ErrorKind uint8

const (
	// Other: nothing that we know better; see the message.
	Other ErrorKind = iota
	// NotFound: the sandbox, container or image is not there.
	NotFound
	// NameReserved: an earlier call with the same name is still under way, or
	// worked. Wait and look again.
	NameReserved
	// Unavailable: the far side does not answer (socket gone, restarting).
	Unavailable
	// Deadline: no answer in time. It may still have worked.
	Deadline
	// Canceled: we gave up first.
	Canceled
	// InvalidConfig: what we asked for can't be (CreateContainerConfigError).
	InvalidConfig
	// ImageNotFound: the registry has no such image, or says nothing of it.
	ImageNotFound
	// ImageUnauthorized: the registry wants other credentials.
	ImageUnauthorized
	// RegistryUnavailable: the registry does not answer.
	RegistryUnavailable
	// ImageSignature: the image's signature did not verify (CRI SignatureValidationFailed).
	ImageSignature
	// InvalidImageName: the reference can't be parsed.
	InvalidImageName
	// Unsupported: this runtime has no such call.
	Unsupported
	// StateConflict: the object is in another state than the call needs.
	StateConflict
	// AlreadyExists: the apiserver has an object of that name.
	AlreadyExists
	// Conflict: the object was changed meanwhile, or is another by now.
	Conflict
	// Unauthorized: the credential is wrong or has expired.
	Unauthorized
	// Forbidden: this node may not do that.
	Forbidden
	// Invalid: the apiserver finds fault with the object.
	Invalid
	// TooManyRequests: the apiserver asks to come again later.
	TooManyRequests
	// Stuck: the runtime can't remove it, and won't be able to before somebody
	// mends it; the message says how.
	Stuck
)

var kindNames = [...]string{
	"error", "not found", "name reserved", "unavailable", "deadline exceeded", "canceled",
	"invalid configuration", "image not found", "image unauthorized", "registry unavailable",
	"image signature invalid", "invalid image name", "unsupported", "state conflict",
	"already exists", "conflict", "unauthorized", "forbidden", "invalid", "too many requests", "stuck",
}

func (k ErrorKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Error is a failure at a port, translated at the border: what was tried on
// which object, of which kind, and in the far side's own words.
type Error struct {
	Kind   ErrorKind
	Verb   string // RunPodSandbox
	Object string // default/web
	Detail string // the far side's words, one line
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

// KindOf returns the kind of err, Other if it is none of ours.
func KindOf(err error) ErrorKind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Other
}
