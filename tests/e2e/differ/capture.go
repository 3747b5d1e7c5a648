package differ

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// sawLine begins the line that the step "see" of tests/images/work prints.
const sawLine = "SEE "

// logOf is what a container's first run has said, without the times.
func logOf(logs string, p *v1.Pod, container string) (string, error) {
	file := filepath.Join(logs, p.Namespace+"_"+p.Name+"_"+string(p.UID), container, "0.log")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), " ", 4)
		if len(f) < 4 {
			continue
		}
		out.WriteString(f[3])
		if f[2] == "F" { // else the line goes on in the next
			out.WriteString("\n")
		}
	}
	return out.String(), nil
}

// saw is the line of JSON in a log, empty if there is none.
func saw(log string) string {
	for line := range strings.Lines(log) {
		if rest, ok := strings.CutPrefix(line, sawLine); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// namespacesHere are those of this process, which are the node's.
func namespacesHere() map[string]string {
	out := map[string]string{}
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "user", "uts", "cgroup"} {
		out[kind], _ = os.Readlink("/proc/self/ns/" + kind)
	}
	return out
}

// seenKeys are what a container has found around it.
func seenKeys(container, line string, k keys) error {
	var of map[string]any
	if err := json.Unmarshal([]byte(line), &of); err != nil {
		return fmt.Errorf("what %s has seen: %w", container, err)
	}
	here := namespacesHere()
	if ns, is := of["Namespaces"].(map[string]any); is {
		for kind, link := range ns {
			ns[kind] = "its own"
			if link == here[kind] {
				ns[kind] = "the node's"
			}
		}
	}
	path := "seen/" + container
	if env, is := of["Env"].([]any); is {
		for _, v := range env {
			name, value, _ := strings.Cut(fmt.Sprint(v), "=")
			k.set(path+"/Env/"+name, value)
		}
		delete(of, "Env")
	}
	if limits, is := of["Limits"].([]any); is {
		for _, l := range limits {
			words := strings.Fields(fmt.Sprint(l))
			k.set(path+"/Limits/"+strings.Join(words[:min(3, len(words))], " "), strings.Join(words[min(3, len(words)):], " "))
		}
		delete(of, "Limits")
	}
	k.add(path, of)
	return nil
}

// directoryKeys are the files of a pod's directory, but for what its volumes have.
func directoryKeys(root string, p *v1.Pod, k keys) {
	top := filepath.Join(root, "pods", string(p.UID))
	const depth = 4
	_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error { // what can't be read is told
		below, _ := filepath.Rel(top, path)
		if err != nil {
			k["directory/"+below] = err.Error()
			return nil
		}
		parts := strings.Split(below, "/")
		k["directory/"+below] = shownFile(path)
		if e.IsDir() && (len(parts) >= depth || parts[0] == "volumes" && len(parts) == 3) {
			return fs.SkipDir
		}
		return nil
	})
}

func shownFile(path string) string {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
}

// cgroupFiles are what limits a pod, in either version.
var cgroupFiles = []string{
	"memory.limit_in_bytes", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "pids.max", "memory.max", "memory.min", "memory.high",
	"cpu.max", "cpu.weight", "memory.oom.group",
}

// cgroupKeys are the pod's cgroups of a node whose cgroups are below root.
func cgroupKeys(root string, p *v1.Pod, k keys) error {
	for _, controller := range []string{"", "memory", "cpu", "pids"} {
		top := filepath.Join("/sys/fs/cgroup", controller, root)
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() || !strings.HasSuffix(path, "pod"+string(p.UID)) {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			below, _ := filepath.Rel(top, path)
			for _, name := range cgroupFiles {
				if text, err := os.ReadFile(filepath.Join(path, name)); err == nil {
					k.set(filepath.Join("cgroup", controller, below, name), strings.TrimSpace(string(text)))
				}
			}
			return fs.SkipDir
		})
		if err != nil {
			return err
		}
	}
	return nil
}
