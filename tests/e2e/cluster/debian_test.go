package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// debian is a machine with Debian's package manager, and the kubelet as a package: a mount namespace, in which what is
// installed is in memory. The rest is the host's, and the root directory of the agent is that of a bed, whose member is
// the machine. testdata/debian has its init, and what stands for systemd.
type debian struct {
	*bed
	dir  string // what belongs to it; in packages/ are those that are installed by their file
	page map[string][]string
	ran  map[string]bool
	// index is that of the repository.
	index string
}

// newDebian makes the machine, with the packages of troupe that are given, the kubelet of the control plane's release
// and the package that it depends on, and the commands of a page of the docs.
func newDebian(t *testing.T, page string, packages ...lab.Package) *debian {
	t.Helper()
	tools := []lab.Requirement{lab.Unshare}
	programs := []string{"apt-get", "dpkg-deb", "deb-systemd-helper", "nsenter", "iptables-save", "ip6tables-save", "git"}
	for _, name := range programs {
		tools = append(tools, lab.NewRequirement(name, func() error { return check.Err(lab.LookPath(name)) }))
	}
	lab.Need(t, tools...)
	repository := check.Value(lab.Repository())(t)
	dir := check.Value(os.MkdirTemp(shared.Dir, ""))(t)
	check.Fatal(t, os.Chmod(dir, 0o755)) // apt reads there as another user
	d := &debian{dir: dir, page: commandsIn(t, filepath.Join(repository, page)), ran: map[string]bool{}}
	for _, sub := range []string{"repository", "packages"} {
		check.Fatal(t, os.MkdirAll(d.file(sub), 0o755))
	}
	for _, name := range []string{"boot.sh", "systemctl", "journalctl", "10-kubeadm.conf"} {
		text := check.Value(os.ReadFile(filepath.Join("testdata/debian", name)))(t)
		check.Fatal(t, os.WriteFile(d.file(name), text, 0o755))
	}
	kubelet := check.Value(lab.BuildKubernetes(t.Context(), repository, "kubelet", os.Stderr))(t)
	d.packKubelet(t, kubelet)
	d.pack(t, "kubernetes-cni", "1.7.1-1.1", "Description: plugins of pods' networks\n", map[string]string{
		"usr/share/doc/kubernetes-cni/README.md": "The plugins would be in /opt, which is the host's.\n",
	})
	for _, p := range packages {
		deb := check.Value(p.Build(t.Context(), repository, d.dir))(t)
		check.Fatal(t, os.Rename(deb, filepath.Join(d.file("packages"), filepath.Base(deb))))
	}
	return d
}

func (d *debian) file(name string) string { return filepath.Join(d.dir, name) }

// agent is the machine's init. The agent that it starts is that of the package.
func (d *debian) agent() member.Agent {
	return member.Agent{Name: "the machine", Command: []string{"sh", d.file("boot.sh"), d.dir}}.OwnPlugins()
}

// packKubelet makes a package of the kubelet, with the files and dependencies that the package of Kubernetes has.
func (d *debian) packKubelet(t *testing.T, program string) {
	t.Helper()
	version := strings.TrimPrefix(lab.KubeadmVersion, "v") + "-1.1"
	control := "Depends: kubernetes-cni (>= 1.2.0), mount, util-linux\nDescription: Node agent for Kubernetes clusters\n"
	files := map[string]string{
		"usr/lib/systemd/system/kubelet.service": string(check.Value(os.ReadFile("testdata/debian/kubelet.service"))(t)),
		"etc/default/kubelet":                    "KUBELET_EXTRA_ARGS=\n",
		"var/lib/kubelet/.kubelet-keep":          "",
		"etc/kubernetes/manifests/.kubelet-keep": "",
		"usr/bin/kubelet":                        string(check.Value(os.ReadFile(program))(t)),
	}
	for _, name := range []string{"postinst", "prerm", "postrm", "conffiles"} {
		files["DEBIAN/"+name] = string(check.Value(os.ReadFile(filepath.Join("testdata/debian/kubelet", name)))(t))
	}
	d.pack(t, "kubelet", version, control, files)
}

// pack makes a package of files, with some fields of its own, and adds it to the repository.
func (d *debian) pack(t *testing.T, what, version, fields string, files map[string]string) {
	t.Helper()
	tree := d.file(what)
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: nobody <nobody@example.com>\n%s",
		what, version, runtime.GOARCH, fields)
	files["DEBIAN/control"] = control
	for name, text := range files {
		mode := os.FileMode(0o644)
		if name == "usr/bin/kubelet" || strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		path := filepath.Join(tree, name)
		check.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Fatal(t, os.WriteFile(path, []byte(text), mode))
	}
	name := fmt.Sprintf("%s_%s_%s.deb", what, version, runtime.GOARCH)
	deb := filepath.Join(d.file("repository"), name)
	pack := exec.CommandContext(t.Context(), "dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, deb)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	check.Fatal(t, os.RemoveAll(tree))
	packed := check.Value(os.ReadFile(deb))(t)
	d.index += fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, name, len(packed), sha256.Sum256(packed))
	check.Fatal(t, os.WriteFile(filepath.Join(d.file("repository"), "Packages"), []byte(d.index), 0o644))
}

// says runs a shell's commands on the machine, in the directory of packages, and gives what they print.
func (d *debian) says(t *testing.T, commands string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", d.PID()),
		"sh", "-ec", `cd "$0"; eval "$1"`, d.file("packages"), commands)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s\n%s", strings.TrimSpace(commands), bytes.TrimSpace(out))
	return string(out), err
}

// does is says of what has to go well.
func (d *debian) does(t *testing.T, commands string) string {
	t.Helper()
	out, err := d.says(t, commands)
	if err != nil {
		said := d.journal(t)
		t.Fatalf("%s: %v; the end of the journal:\n%s", commands, err, said[max(0, len(said)-6000):])
	}
	return out
}

// journal is what the agents have said.
func (d *debian) journal(t *testing.T) string {
	t.Helper()
	text := check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/root/run/systemd/journal", d.PID())))(t)
	return string(text)
}

// follow runs the commands of a section of the page, one block after the other.
func (d *debian) follow(t *testing.T, section string) string {
	t.Helper()
	if len(d.page[section]) == 0 {
		t.Fatalf("the page has no commands below %q; it has %v", section, d.page)
	}
	d.ran[section] = true
	out := ""
	for _, block := range d.page[section] {
		out += d.does(t, block)
	}
	return out
}

// heading of a section of a page, and of a part of one.
var heading = regexp.MustCompile(`^##+ (.*)$`)

// commandsIn are the blocks of commands of a page, by the heading that they are below.
func commandsIn(t *testing.T, file string) map[string][]string {
	t.Helper()
	text := check.Value(os.ReadFile(file))(t)
	out, section, inside := map[string][]string{}, "", false
	for line := range strings.Lines(string(text)) {
		if m := heading.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			section = m[1]
		}
		command, is := strings.CutPrefix(line, "    ")
		switch blocks := out[section]; {
		case is && inside:
			blocks[len(blocks)-1] += command
		case is:
			out[section] = append(blocks, command)
		}
		inside = is
	}
	return out
}

// stamped is the name of a directory that has the time of when it was written.
var stamped = regexp.MustCompile(`/\.\.\d{4}_[\d_.]+`)

// packets are the counters in what iptables-save prints.
var packets = regexp.MustCompile(`\[\d+:\d+\]`)

// containerID is one of containerd's.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// ofContainer is the file for the message of a container, which each one has another name for.
var ofContainer = regexp.MustCompile(`(/pods/[^/]*/containers/[^/]*/)[0-9a-f]{8}$`)

// notes are troupe's of the disks that a pod has. They go with the pod.
var notes = regexp.MustCompile(`/pods/[^/]*/plugins/kubernetes\.io~local-volume(/|$)`)

// traces are what an agent leaves on a machine, by kind.
func (d *debian) traces(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	add := func(kind, what string) { out[kind] = append(out[kind], what) }
	own := filepath.Dir(filepath.Dir(d.Root())) + "/"
	others := filepath.Dir(filepath.Clean(own)) + "/" // the directories of all beds
	mounts := check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", d.PID())))(t)
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		at := strings.Fields(left)[4]
		if strings.HasPrefix(at, others) && !strings.HasPrefix(at, own) {
			continue // those of other tests come and go
		}
		add("mounts", at+" "+strings.Fields(right)[0])
	}
	check.Fatal(t, filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.Contains(path, d.lab.CgroupRoot()+"/") {
			add("cgroups", containerID.ReplaceAllString(path, "ID")) // a static pod may have another
		}
		return nil // those of others come and go
	}))
	check.Fatal(t, filepath.WalkDir(d.Root(), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !notes.MatchString(path) {
			path = ofContainer.ReplaceAllString(stamped.ReplaceAllString(path, "/..TIME"), "${1}MESSAGE")
			add("files", path+" "+e.Type().String())
		}
		return err
	}))
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		path := check.Value(lab.LookPath(program))(t)
		rules := check.Value(exec.CommandContext(t.Context(), path).Output())(t)
		for line := range strings.Lines(string(rules)) {
			if strings.Contains(line, "KUBE-") { // those of pods' networks come and go
				add("rules", program+" "+strings.TrimSpace(packets.ReplaceAllString(line, "")))
			}
		}
	}
	for _, list := range out {
		slices.Sort(list)
		seen := map[string]int{} // one mount may be on another
		for i, line := range list {
			if seen[line]++; seen[line] > 1 {
				list[i] = fmt.Sprintf("%s, %d of them", line, seen[line])
			}
		}
	}
	return out
}
