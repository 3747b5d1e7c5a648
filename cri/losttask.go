package cri

import (
	"fmt"
	"regexp"
)

// lostTask is containerd's error for a container that it considers dead although its task still
// exists. A StartContainer whose call ends (the agent was killed, a deadline passed) just after
// the task was made leaves such a task, in 1.6 as in 2.4 (containerd issue 11037). No CRI call
// can remove it; containerd cleans it up when it restarts.
var lostTask = regexp.MustCompile(`cannot delete running task ([0-9a-zA-Z_.-]+)`)

// lostTaskAdvice is containerd's detail plus what to do.
func lostTaskAdvice(detail string) string {
	id := lostTask.FindStringSubmatch(detail)[1]
	return fmt.Sprintf(
		"containerd lost the task of a container (containerd issue 11037): restart containerd, which keeps containers "+
			"running, or run `ctr -n k8s.io tasks delete --force %s`; it said: %s", id, detail,
	)
}
