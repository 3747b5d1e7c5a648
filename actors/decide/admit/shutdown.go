package admit

// shuttingDown keeps out every pod, static pods too, while the machine shuts down.
func shuttingDown(r *Request) *Rejection {
	if r.Node.Pressure.ShuttingDown {
		return &Rejection{Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."}
	}
	return nil
}
