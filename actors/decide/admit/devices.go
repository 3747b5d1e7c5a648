package admit

// unexpected is the kubelet's reason for a pod whose devices it can't allocate.
const unexpected = "UnexpectedAdmissionError"

// devices rejects a pod that asks for devices that this node can't give: it would start without them. One that runs
// already has them.
func devices(r *Request) *Rejection {
	if r.Node.Runs {
		return nil
	}
	if why := r.Node.Devices.Missing(r.Pod); why != "" {
		return reject(unexpected, "%s; run the pod on another node", why)
	}
	return nil
}
