//go:build linux && !nonode

package commands

import (
	"strings"
	"testing"
)

// TestChaosLiveRefuses: before anything is started, each thing that is missing or can't be done is told.
func TestChaosLiveRefuses(t *testing.T) {
	all := []string{
		"live", "--runtime-socket", "/nowhere/runtime.sock", "--kubeconfig", "/nowhere/admin.conf", "--agent", "exit 1",
		"--node", "n", "--confirm", "n",
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"live", "create a main=app"}, "live runs need the runtime's socket"},
		{[]string{"live", "--node", "n", "create a main=app"}, "give --confirm n"},
		{append(all, "create a main=app; power-cycle"), "this case needs power-cycle, which is not possible on a real node"},
		{append(all, "explode"), `unknown operation "explode"`},
		{append(all, "write a main=app"), "--manifests"},
		{append(all, "create a main=app; kill-runtime"), "--kill-runtime"},
		{append(all, "--kill-runtime", "true", "create a main=app; kill-runtime"), "kubeconfig /nowhere/admin.conf"},
	} {
		_, code, err := chaosSays(t, c.args...)
		if code != exitFailed || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: code %d, want %d with %q: %v", c.args, code, exitFailed, c.says, err)
		}
	}
}
