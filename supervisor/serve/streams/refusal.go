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

// Texts that tools and people look for: they are those of the kubelet. The second one is of port forwarding: a process
// is looked for in the pod with that UID, where it is not.
var (
	errNoPod   = &refusal{http.StatusNotFound, "pod does not exist"}
	errOtherID = &refusal{http.StatusNotFound, "pod not found"}
)

var errStopping = &refusal{http.StatusServiceUnavailable, "the node agent is stopping"}

// noContainer is also the answer for one that is there and does not run.
func noContainer(name string) error {
	return &refusal{http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name)}
}

// promised is for how many seconds runtimes keep a place for a stream that they have promised.
const promised = "60"

// refuse answers with an error, and the status that a kubelet has for it.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if r, ok := errors.AsType[*refusal](err); ok {
		status = r.status
	} else {
		switch port.KindOf(err) {
		case port.NotFound:
			status = http.StatusNotFound
		case port.TooManyRequests:
			w.Header().Set("Retry-After", promised)
			status = http.StatusTooManyRequests
		default:
		}
	}
	http.Error(w, err.Error(), status)
}
