package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestUp runs the whole command as a user would and waits until it has seen every pod as it
// should be.
//
//tier:real
func TestUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		needs []lab.Requirement
		env   []string
	}{
		{"sim", nil, []string{"RUNTIME=sim"}},
		{"containerd 1.6", lab.Containerd1.Needs(), []string{"RUNTIME=containerd", "RELEASE=1.6"}},
		{"containerd 2", lab.Containerd2.Needs(), []string{"RUNTIME=containerd", "RELEASE=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab.Need(t, append(c.needs, lab.GoToolchain)...)
			ctx, cancel := context.WithTimeout(t.Context(), lab.BuildTime)
			defer cancel()
			repository := check.Value(lab.Repository())(t)
			binary := check.Value(lab.BuildUp(ctx, repository))(t)
			up := exec.CommandContext(ctx, binary, "--once")
			up.Env = append(os.Environ(), c.env...)
			up.Cancel = func() error { return up.Process.Signal(syscall.SIGTERM) } // let it clean up
			out, err := up.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
