package cri

import "time"

// Deadlines by kind of call. A call that only reads the runtime's memory has a short one, so that
// a hung runtime is detected; a call that starts or ends processes follows runtimeRequestTimeout
// (R, 2 min by default), as in the kubelet.
//
//	Version, Status                          10 s, at most R
//	lists                                    30 s, at most R
//	status of a sandbox, container or image  15 s, at most R
//	RunPodSandbox                            2 R (the network's plugins are in it)
//	StopPodSandbox, RemovePodSandbox         R
//	CreateContainer, StartContainer          R
//	RemoveContainer, RemoveImage             R
//	StopContainer                            grace + R
//	ExecSync                                 timeout + R, none if it has no timeout
//	PullImage                                none
//	GetContainerEvents                       none
//
// All are bounded by the caller's context as well.
const (
	defaultRequestTimeout = 2 * time.Minute

	askTimeout     = 10 * time.Second
	inspectTimeout = 15 * time.Second
	listTimeout    = 30 * time.Second

	none time.Duration = 0
)

type deadlines struct{ request time.Duration }

func (d deadlines) ask() time.Duration        { return min(askTimeout, d.request) }
func (d deadlines) inspect() time.Duration    { return min(inspectTimeout, d.request) }
func (d deadlines) list() time.Duration       { return min(listTimeout, d.request) }
func (d deadlines) runSandbox() time.Duration { return 2 * d.request }

func (d deadlines) stopContainer(grace time.Duration) time.Duration { return grace + d.request }

func (d deadlines) exec(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return none
	}
	return timeout + d.request
}

// wholeSeconds rounds up: the CRI counts in seconds. Rounding down would shorten the time, or
// make it 0, which has another meaning.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Second - 1) / time.Second)
}
