package probe

// Result is the last result of a kind of probe.
type Result uint8

const (
	None    Result = iota // no such probe
	Unknown               // no answer yet
	Success
	Failure
)

// Health is the health of one container incarnation.
type Health struct {
	Startup, Liveness, Readiness Result
	// Message is that of the last failure.
	Message string
	// Grace is the probe's own terminationGracePeriodSeconds; nil for the pod's.
	Grace *int64
}

// Failed says whether the container is to be stopped for its health.
func (h Health) Failed() bool { return h.Liveness == Failure || h.Startup == Failure }
