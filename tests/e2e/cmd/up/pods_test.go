package main

import (
	"strings"
	"testing"
)

func examplePods() []pod {
	return []pod{
		{Name: "crash-node1", Phase: "Running", IP: "10.1.0.3", Containers: []container{
			{Name: "crash", Kind: "main", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 1},
		}},
		{Name: "init-and-sidecar-node1", Phase: "Running", IP: "10.1.0.4", Containers: []container{
			{Name: "prepare", Kind: "init", State: "terminated", Reason: "Completed"},
			{Name: "notes", Kind: "sidecar", State: "running"},
			{Name: "web", Kind: "main", State: "running"},
		}},
		{Name: "web-node1", Phase: "Running", IP: "10.1.0.2", Containers: []container{
			{Name: "web", Kind: "main", State: "running", Ready: true},
		}},
	}
}

//tier:unit
func TestUnmet(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(pods []pod)
		want   string // part of the error; empty for none
	}{
		{"as they should be", func([]pod) {}, ""},
		{"web pends", func(p []pod) { p[2].Phase = "Pending" }, "pod web-node1 is Pending"},
		{"web is not there", func(p []pod) { p[2].Name = "other" }, "pod web is missing"},
		{"crash runs for the first time", func(p []pod) { p[0].Containers[0].Restarts = 0 }, "not restarted"},
		{"init container runs", func(p []pod) { p[1].Containers[0].State = "running" }, "container prepare"},
		{"sidecar has ended", func(p []pod) { p[1].Containers[1].State = "terminated" }, "container notes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := examplePods()
			c.change(pods)
			err := (&node{}).unmet(t.Context(), pods)
			if err == nil && c.want == "" {
				return
			}
			if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("unmet is %v, want %q", err, c.want)
			}
		})
	}
}

//tier:unit
func TestRender(t *testing.T) {
	table := render(examplePods())
	for _, want := range []string{"crash-node1", "waiting: CrashLoopBackOff", "prepare (init)", "notes (sidecar)"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in the table:\n%s", want, table)
		}
	}
	if strings.Count(table, "init-and-sidecar-node1") != 1 {
		t.Errorf("a pod's name stands in one line:\n%s", table)
	}
}
