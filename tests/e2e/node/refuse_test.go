package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

func killPID(t *testing.T, pid int) {
	t.Helper()
	check.Fatal(t, syscall.Kill(pid, syscall.SIGKILL))
}

// tree lists the files below dir with size and time, but for sockets' and logs' sake no content.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files = append(files, fmt.Sprintf("%s %s %d %s", path, info.Mode(), info.Size(), info.ModTime()))
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

// TestRefusals shows that an agent that cannot run says so in one clear line, ends with 1, and has
// neither started nor changed anything.
//
//tier:real
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBed(t, lab.Containerd2)
	b.apply(t, "pod.yaml", plain("pod"))
	fresh := filepath.Join(b.dir, "fresh-root")
	config := func(name, text string) string {
		file := filepath.Join(b.dir, name)
		text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzPort: 0\n" + text
		check.Fatal(t, os.WriteFile(file, []byte(text), 0o644))
		return file
	}
	good := config("good.yaml", "")
	base := []string{"node", "--root-dir", fresh, "--device-plugins-dir", filepath.Join(fresh, "device-plugins"), "--hostname-override", NodeName, "--pod-manifest-path", b.Manifests()}
	runtime := []string{"--container-runtime-endpoint", b.lab.Endpoint()}
	cases := []struct {
		name string
		args []string
		want []string // all in the line
	}{
		{"missing-socket", []string{"--config", good, "--container-runtime-endpoint", "unix://" + b.dir + "/none.sock"}, []string{b.dir + "/none.sock"}},
		{"no-socket", []string{"--config", good, "--container-runtime-endpoint", "unix://" + good}, []string{good}},
		{"unknown-gate", append([]string{"--config", config("unknown.yaml", "featureGates: {Nope: true}\n")}, runtime...), []string{"unknown.yaml", "Nope"}},
		{"wrong-type", append([]string{"--config", config("type.yaml", "maxPods: many\n")}, runtime...), []string{"type.yaml", "maxPods"}},
		{"wrong-value", append([]string{"--config", config("value.yaml", "maxPods: -5\n")}, runtime...), []string{"maxPods"}},
		{"wrong-kind", append([]string{"--config", config("kind.yaml", "") + "x"}, runtime...), []string{"kind.yamlx"}},
		{"unknown-flag", append([]string{"--config", good, "--no-such-flag"}, runtime...), []string{"no-such-flag"}},
		{"missing-kubeconfig", append([]string{"--config", good, "--kubeconfig", b.dir + "/none"}, runtime...), []string{"kubeconfig"}},
		{"root-is-a-file", append([]string{"--config", good, "--root-dir", good}, runtime...), []string{good}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := tree(t, filepath.Dir(b.dir))
			refused(t, b, append(slices.Clone(base), c.args...), c.want)
			after := tree(t, filepath.Dir(b.dir))
			before, after = withoutLab(before, b), withoutLab(after, b)
			if !slices.Equal(before, after) {
				t.Errorf("it changed files:\nbefore %q\nafter  %q", before, after)
			}
			if err := b.look(t).Empty(); err != nil {
				t.Errorf("it started something: %v", err)
			}
		})
	}
	t.Run("second-agent", func(t *testing.T) {
		b.start(t)
		b.awaitRunning(t, "pod")
		ran := b.look(t).RunningIDs()
		refused(t, b, b.Args(), []string{b.Root()})
		if now := b.look(t).RunningIDs(); !slices.Equal(now, ran) {
			t.Errorf("what ran was %v and is %v", ran, now)
		}
		b.awaitRunning(t, "pod") // asked through the first one's socket
	})
}

// withoutLab leaves out what containerd writes.
func withoutLab(files []string, b *bed) []string {
	return slices.DeleteFunc(files, func(f string) bool {
		return strings.HasPrefix(f, b.lab.Dir()+"/") || strings.HasPrefix(f, b.lab.Dir()+" ")
	})
}

func refused(t *testing.T, b *bed, args, want []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.config.Binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v; want exit status 1", err)
	}
	// It may have said which version it is, and what it was warned of.
	said := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	line := said[len(said)-1]
	other := func(line string) bool { return !strings.Contains(line, " INF ") && !strings.Contains(line, " WRN ") }
	if line == "" || !other(line) || slices.ContainsFunc(said[:len(said)-1], other) || len(said) > 4 || stdout.Len() > 0 {
		t.Errorf("stderr %q, stdout %q; want why it can't run in the last line of stderr", stderr.String(), stdout.String())
	}
	for _, w := range want {
		check.Has(t, line, w, "%q does not name %s", line, w)
	}
	t.Log(line)
}
