//go:build linux && !nonode

package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestNodeCheck: what --check prints, and its exit codes.
func TestNodeCheck(t *testing.T) {
	dir, err := os.MkdirTemp("", "k") // t.TempDir has too long a path for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		check.Error(t, os.RemoveAll(dir))
	})
	// Nothing depends on what this machine has.
	good := []string{"node", "--check", "--runtime=sim", "--root-dir=" + filepath.Join(dir, "r"), "--hostname-override=n1", "--enable-server=false",
		"--healthz-port=0", "--fail-swap-on=false", "--resolv-conf="}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"good", nil, 0, "the agent would start\n"},
		{"good, and strict", []string{"--strict"}, -1, "the agent would start\n"},
		{"warned of", []string{"--cluster-dns=x"}, 0, "warning: --cluster-dns: clusterDNS[0]: "},
		{"warned of, and strict", []string{"--cluster-dns=x", "--strict"}, exitWarned, "the agent would start\n"},
		{"without effect", []string{"--sync-frequency=2m", "--strict"}, exitWarned, "no effect: syncFrequency\n"},
		{"refused by the configuration", []string{"--cluster-dns=x", "--max-pods=-1"}, exitFailed, "refused: --max-pods: maxPods: -1: must be at least 0\n"},
		{"refused by the machine", []string{"--root-dir=/proc/self/status/r", "--strict"}, exitFailed, "refused: root directory: "},
		{"no node to run", []string{"--check=false", "--strict"}, exitFailed, ""},
		{"another output", []string{"-o", "yaml"}, exitFailed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := command(t.Context(), append(good, tt.args...)...)
			code := exitCode(t.Context(), err)
			if tt.code < 0 { // as this machine is
				tt.code = 0
				if strings.Contains(out, "warning: ") {
					tt.code = exitWarned
				}
			}
			if code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "would not start") != (tt.code == exitFailed && out != "") {
				t.Errorf("exit code %d, want %d: %v\n%s", code, tt.code, err, out)
			}
			json := append(good, append(tt.args, "-o", "json")...)
			if tt.want != "" {
				wantReport(t, json, tt.code)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: something was made", left, err)
	}
}

func wantReport(t *testing.T, args []string, code int) {
	t.Helper()
	out, err := command(t.Context(), args...)
	var r struct {
		Starts                           bool
		Node                             string
		Refused, Warnings, WithoutEffect []string
	}
	if e := json.Unmarshal([]byte(out), &r); e != nil {
		t.Fatalf("%v: %s", e, out)
	}
	if got := exitCode(t.Context(), err); got != code || r.Starts == (code == exitFailed) || r.Starts != (len(r.Refused) == 0) ||
		r.Refused == nil || r.Warnings == nil || r.WithoutEffect == nil || r.Starts && r.Node != "n1" {
		t.Errorf("exit code %d, want %d: %s", got, code, out)
	}
}
