package probe

// Result is what a kind of probe last said.
type Result uint8

const (
	None    Result = iota // no such probe
	Unknown               // no answer yet
	Success
	Failure
)

// Health of one container incarnation.
type Health struct {
	Startup, Liveness, Readiness Result
	// Message of the last failure.
	Message string
	// Grace is the probe's own terminationGracePeriodSeconds, nil for the pod's.
	Grace *int64
}
