package streams

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/actors/port"
)

// refusal is an answer instead of a stream. kubectl shows its text, after "unable to upgrade
// connection: ".
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func badRequest(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// Texts that tools and people look for: they are those of the kubelet.
var (
	errNoPod   = &refusal{http.StatusNotFound, "pod does not exist"}
	errOtherID = &refusal{http.StatusNotFound, "pod not found"}
)

var errStopping = &refusal{http.StatusServiceUnavailable, "the node agent is stopping"}

// noContainer is also the answer for one that is there and does not run.
func noContainer(name string) error {
	return &refusal{http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name)}
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if r, ok := errors.AsType[*refusal](err); ok {
		status = r.status
	} else {
		switch port.KindOf(err) {
		case port.NotFound:
			status = http.StatusNotFound
		case port.Unsupported:
			status = http.StatusNotImplemented
		case port.Unavailable:
			status = http.StatusServiceUnavailable
		case port.Deadline:
			status = http.StatusGatewayTimeout
		default:
		}
	}
	http.Error(w, err.Error(), status)
}
