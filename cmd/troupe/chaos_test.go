package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chaosSays runs troupe chaos and gives what it printed and its exit code.
func chaosSays(t *testing.T, args ...string) (string, int, error) {
	t.Helper()
	c := newRootCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(append([]string{"chaos"}, args...))
	err := c.ExecuteContext(t.Context())
	return out.String(), exitCode(t.Context(), err), err
}

// TestChaosExitCodes: what held, what is stale, what is violated and what can't be run.
func TestChaosExitCodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "case")
	if err := os.WriteFile(file, []byte("create web main=app\nexplode\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "create web main=app"}, 0, "1 cases, 1 held"},
		{[]string{"run", "create web main=app; fault call StopContainer web/app #1 = hang"}, exitStale, "fault call StopContainer"},
		{[]string{"run", "create web main=app; on web Ready: lose-task web/app; delete web", "--shrink", "2s"}, exitViolated, "violated L01"},
		{[]string{"shrink", "create web main=app"}, exitFailed, "violates no rule"},
		{[]string{"run", "@" + file}, exitFailed, `line 2: "explode"`},
		{[]string{"run", "@" + file + "x"}, exitFailed, "no such file"},
		{[]string{"seeds", "7..3"}, exitFailed, "want FROM..TO"},
		{[]string{"seeds", "1..3"}, 0, "3 cases"},
		{[]string{"sweep", "no-life"}, exitFailed, "but: plain"},
	} {
		out, code, err := chaosSays(t, c.args...)
		if err != nil {
			out += err.Error()
		}
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v: code %d, want %d, says\n%s", c.args, code, c.code, out)
		}
	}
}

// TestChaosJSON: what programs read.
func TestChaosJSON(t *testing.T) {
	out, code, err := chaosSays(t, "run", "create web main=app; fault call StartContainer web/app #1 = fail", "--json")
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	var got outcomeJSON
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Cases != 1 || got.Held != 1 || got.FaultsReached["call fail"] != 1 || got.TraceHash == "" || got.SimSeconds < 60 {
		t.Errorf("%s", out)
	}
}
