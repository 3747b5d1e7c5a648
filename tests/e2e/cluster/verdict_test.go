package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// verdict is all that a user is told of a pod, by kubectl get and describe, a line
// each. NS stands for the namespace, UID for any UID.
//
//	0/1 CreateContainerConfigError 0
//	pod: REASON: MESSAGE
//	app waits: REASON: MESSAGE
//	app ended: REASON CODE: MESSAGE
//	Warning REASON: MESSAGE
func (b *bed) verdict(ctx context.Context, name string) (lines []string, err error) {
	p, err := b.admin.CoreV1().Pods(b.name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	events, err := b.admin.CoreV1().Events(b.name).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return nil, err
	}
	lines = []string{shown(p)}
	if p.Status.Reason != "" {
		lines = append(lines, "pod: "+p.Status.Reason+": "+p.Status.Message)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			lines = append(lines, fmt.Sprintf("%s waits: %s: %s", c.Name, w.Reason, w.Message))
		}
		for _, t := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil {
				lines = append(lines, fmt.Sprintf("%s ended: %s %d: %s", c.Name, t.Reason, t.ExitCode, t.Message))
			}
		}
	}
	var told []string
	for i := range events.Items {
		e := &events.Items[i]
		told = append(told, e.Type+" "+e.Reason+": "+e.Message)
	}
	slices.Sort(told)
	lines = append(lines, slices.Compact(told)...)
	for i := range lines {
		lines[i] = strings.ReplaceAll(uid.ReplaceAllString(lines[i], "UID"), b.name, "NS")
	}
	return lines, nil
}
