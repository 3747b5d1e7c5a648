package contract

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
)

// Runtime runs the suite for port.Runtime. open is called once per test and
// cleans up after itself with t.Cleanup.
func Runtime(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"Version", testVersion},
		{"Status", testStatus},
		{"ContextEnded", testContextEnded},

		{"Image/PullStatusListRemove", testImage},
		{"Image/Missing", testImageMissing},
		{"Image/InvalidName", testImageInvalidName},
		{"Image/PullTwiceAtOnce", testPullTwiceAtOnce},

		{"Sandbox/Lifecycle", testSandboxLifecycle},
		{"Sandbox/NameReserved", testSandboxNameReserved},
		{"Sandbox/NameReservedWhileMade", testSandboxNameReservedWhileMade},
		{"Sandbox/Gone", testSandboxGone},
		{"Sandbox/HostNetwork", testSandboxHostNetwork},
		{"Sandbox/StopKillsContainers", testSandboxStopKills},
		{"Sandbox/RemoveRunning", testSandboxRemoveRunning},

		{"Container/Lifecycle", testContainerLifecycle},
		{"Container/ExitCodes", testContainerExitCodes},
		{"Container/NameReserved", testContainerNameReserved},
		{"Container/NextAttempt", testContainerNextAttempt},
		{"Container/WrongState", testContainerWrongState},
		{"Container/ImageGone", testContainerImageGone},
		{"Container/SandboxGone", testContainerSandboxGone},
		{"Container/Gone", testContainerGone},
		{"Container/RemoveRunning", testContainerRemoveRunning},

		{"Stop/OnTERM", testStopOnTERM},
		{"Stop/WithinGrace", testStopWithinGrace},
		{"Stop/AfterGrace", testStopAfterGrace},
		{"Stop/ZeroGrace", testStopZeroGrace},
		{"Stop/ShorterOvertakes", testStopShorterOvertakes},
		{"Stop/CanceledDoesNotKill", testStopCanceled},
		{"Stop/NotStarted", testStopNotStarted},

		{"List/OnePodAndAll", testList},
		{"List/RoundTrip", testRoundTrip},

		{"Exec/ExitCodes", testExecExitCodes},
		{"Exec/Timeout", testExecTimeout},
		{"Exec/NotRunning", testExecNotRunning},

		{"Events/Unsupported", testEventsUnsupported},
		{"Events/StartAndExit", testEvents},
		{"Events/EndWithContext", testEventsEnd},

		{"Concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			subject := open(t)
			c.test(&suite{T: t, Subject: subject})
		})
	}
}

func testVersion(s *suite) {
	v := begin(s, "Version", func(done func(port.RuntimeVersion, error)) {
		s.Runtime.Version(context.Background(), done)
	}).noError()
	if v.Name == "" || v.Version == "" || v.APIVersion != "v1" {
		s.Errorf("version is %+v, want a name, a version and API v1", v)
	}
}

func testStatus(s *suite) {
	st := begin(s, "Status", func(done func(port.RuntimeStatus, error)) {
		s.Runtime.Status(context.Background(), done)
	}).noError()
	ready := map[string]bool{}
	for _, c := range st.Conditions {
		ready[c.Type] = c.Status
	}
	for _, want := range []string{"RuntimeReady", "NetworkReady"} {
		if !ready[want] {
			s.Errorf("%s is not true in %+v", want, st.Conditions)
		}
	}
}

// testContextEnded: a call with an ended context answers, and soon.
func testContextEnded(s *suite) {
	ctx, cancel := s.context()
	cancel()
	pod := s.pod(s.Forever)
	s.runCtx(ctx, pod, 0).kind(port.Canceled)
	begin(s, "Version", func(done func(port.RuntimeVersion, error)) {
		s.Runtime.Version(ctx, done)
	}).kind(port.Canceled)
}
