package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPlaneFile: tests take a shared control plane only if its process lives, it is what they want, and they are not
// CI's.
//
//tier:unit
func TestPlaneFile(t *testing.T) {
	const nobody = 1<<22 + 1 // Linux gives no process a higher number than 1<<22
	for name, c := range map[string]struct {
		text, ci string
		pid      int
		want     string // of the error
	}{
		"lives":                       {pid: os.Getpid()},
		"CI":                          {pid: os.Getpid(), ci: "true", want: errNoPlane.Error()},
		"dead":                        {pid: nobody, want: "is gone"},
		"all processes of this group": {pid: 0, want: "is gone"},
		"no JSON":                     {text: "{", want: "plane.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", c.ci)
			path := filepath.Join(t.TempDir(), "plane.json")
			wrote := planeFile{PID: c.pid, Config: "abc", Ports: planePorts{APIServer: 1}}
			err := wrote.write(path)
			if c.text != "" {
				err = os.WriteFile(path, []byte(c.text), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			read, err := readPlaneFile(path, "abc")
			if c.want == "" && (err != nil || read != wrote) {
				t.Errorf("%+v and error %v, want %+v", read, err, wrote)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			check.Fails(t, check.Err(readPlaneFile(path, "abd")), "one of another configuration was taken")
		})
	}
	t.Setenv("CI", "")
	if _, err := readPlaneFile(filepath.Join(t.TempDir(), "plane.json"), "abc"); !errors.Is(err, errNoPlane) {
		t.Errorf("without a file: %v, want %v", err, errNoPlane)
	}
}

// TestPlaneFingerprint: what a test can see of a control plane is in it, and where that is not.
//
//tier:unit
func TestPlaneFingerprint(t *testing.T) {
	repository := check.Value(Repository())(t)
	of := func(c ControlPlaneConfig) string {
		c.Repository = repository
		text := check.Value(c.fingerprint())(t)
		return text
	}
	base := of(ControlPlaneConfig{ControllerManager: true, Scheduler: true})
	elsewhere := ControlPlaneConfig{Dir: "/a", ControllerManager: true, Scheduler: true, Log: t.Output()}
	if again := of(elsewhere); again != base {
		t.Errorf("%s in another directory, want %s", again, base)
	}
	for name, other := range map[string]ControlPlaneConfig{
		"no scheduler":  {ControllerManager: true},
		"no controller": {Scheduler: true},
		"flags":         {ControllerManager: true, Scheduler: true, APIServerFlags: []string{"--v=1"}},
	} {
		if of(other) == base {
			t.Errorf("%s: the same", name)
		}
	}
}
