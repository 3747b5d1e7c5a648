package cri

import (
	"fmt"
	"regexp"
)

// lostTask is what containerd says of a container that it takes for dead while
// there is a task of it still. A StartContainer whose call ends (the agent was
// killed, a deadline passed) just after the task was made leaves one behind, in
// 1.6 as in 2.4 (containerd issue 11037). No call of the CRI gets at it any more;
// containerd looks after it when it starts.
var lostTask = regexp.MustCompile(`cannot delete running task ([0-9a-zA-Z_.-]+)`)

// lostTaskAdvice is containerd's detail in words that say what to do.
func lostTaskAdvice(detail string) string {
	id := lostTask.FindStringSubmatch(detail)[1]
	return fmt.Sprintf(
		"containerd lost the task of a container (containerd issue 11037): restart containerd, which keeps containers "+
			"running, or run `ctr -n k8s.io tasks delete --force %s`; it said: %s", id, detail,
	)
}
