package admit

import (
	"cmp"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
)

// devices rejects a pod that asks for devices that this node can't give: it would start without them.
func devices(r *Request) *Rejection {
	why := r.Node.Devices.Missing(claims.WithoutBacked(r.Pod))
	if !r.Node.Claims {
		why = cmp.Or(devicestate.Unclaimed(r.Pod), why)
	}
	if why != "" {
		return reject(UnexpectedAdmissionError, "%s; run the pod on another node", why)
	}
	return nil
}
