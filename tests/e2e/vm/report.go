package vm

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Check is something that the guest looks at on each release of containerd.
type Check struct {
	Name  string
	What  string // holds if the check passes
	Vital bool   // those after it cannot be made without it
	Once  bool   // it is made on the newest release only: it is about the node, and takes long
	// Only is the kind of machine on which it is made; empty for all.
	Only Machine
}

// Deadline is for all checks of a machine. They take about five minutes on two idle cores without KVM, and four times
// that beside other tests.
const Deadline = 30 * time.Minute

// Machine is a kind of virtual machine.
type Machine string

const (
	// Bare has the guest program as process 1. Cgroups are made in the file system.
	Bare Machine = "bare"
	// Systemd has systemd as process 1, which makes the cgroups. logind shuts it down in the end.
	Systemd Machine = "systemd"
	// Packaged has systemd, and there the agent is what systemd starts by the unit of troupe's package.
	Packaged Machine = "packaged"
)

// HasSystemd says whether systemd is process 1.
func (m Machine) HasSystemd() bool { return m != Bare }

// Releases are the releases of containerd that are in the machine.
func (m Machine) Releases() []lab.Release {
	if m == Bare {
		return lab.Releases
	}
	return lab.Releases[len(lab.Releases)-1:]
}

// Checks are all that the machine has, in the order in which the guest makes them. But for the vital ones, each
// needs those before it only to have been tried.
func (m Machine) Checks() []Check {
	if m == Packaged {
		return packageChecks
	}
	return nodeChecks
}

// packageChecks are about the package, and go from one state of it to the next: each needs those before it.
var packageChecks = []Check{
	{Name: "runtime", What: "containerd starts", Vital: true},
	{Name: "kubelet", What: "the packages kubelet and kubeadm are installed, and the unit runs", Vital: true},
	{Name: "install", What: "apt-get puts troupe in the place of the package kubelet: the unit stays enabled, and the operator's settings stay", Vital: true},
	{Name: "waits", What: "before kubeadm join the unit tries again and again, and the check before the start says what is missing"},
	{Name: "join", What: "kubeadm join makes a node of the machine, with the arguments of kubeadm's file and of the operator's", Vital: true},
	{Name: "pods", What: "a static pod and a pod of the cluster run", Vital: true},
	{Name: "restart", What: "systemctl restart leaves the containers"},
	{Name: "refused", What: "a setting that is wrong is named by the check before the start, the containers run on, and with the setting mended the agent starts by itself"},
	{Name: "command", What: "the agent starts by an ExecStart of the operator's own, though the check before it has other arguments and fails"},
	{Name: "upgrade", What: "apt-get installs a newer package: the agent is another, and the containers are the same"},
	{Name: "back", What: "apt-get puts the kubelet back in its place, and troupe again: the unit stays enabled, and the containers are the same"},
	{Name: "remove", What: "apt-get removes troupe: the agent ends and says so, its file for systemd-logind goes, and containers and state stay"},
	{Name: "purge", What: "a purge takes what dpkg and systemd know of it, and leaves the state, the settings and the containers"},
	{Name: "again", What: "installed again and enabled, it has the same containers"},
}

// nodeChecks are about a node, whose agent the guest starts.
var nodeChecks = []Check{
	{Name: "runtime", What: "containerd starts", Vital: true},
	{Name: "agent", What: "the agent starts, with failCgroupV1: true in its configuration", Vital: true},
	{Name: "running", What: "a pod runs"},
	{Name: "limits", What: "CPU and memory limits, and the share of CPU requested, are in the container's cgroup"},
	{Name: "podlimits", What: "pods have cgroups of their own, by their classes, with their limits together"},
	{Name: "swap", What: "a container may not swap, with a memory limit or without"},
	{Name: "oomgroup", What: "a container short of memory is to be killed as a whole"},
	{Name: "units", What: "the limits of pods are properties of their slices, so that a daemon-reload changes none", Only: Systemd},
	{Name: "sidecar", What: "an init container has ended before a sidecar and a main container run, which serves"},
	{Name: "oom", What: "a container that takes more memory than its limit is killed, for the reason that the runtime gives"},
	{Name: "crash", What: "a container that exits is started again, and counted"},
	{Name: "takeover", What: "an agent started after kill -9 finds the same containers and restarts none"},
	{Name: "killed", What: "a container whose processes are killed is started again, and its old scope is gone", Only: Systemd},
	{Name: "clock", What: "a clock that is set a day on and back restarts nothing, and pods come and go as before", Once: true, Only: Bare},
	{Name: "nfs", What: "a pod has the files of an NFS server; while that does not answer only who needs it waits, says so and can be deleted, and goes on when it answers", Once: true, Only: Bare},
	{Name: "projects", What: "a directory on ext4 and on XFS gets a project, has in it what is written there, and nothing is renamed or linked into it", Once: true, Only: Bare},
	{Name: "quota", What: "a pod that writes past the limit of an emptyDir with a project quota is evicted without a walk, by an agent that was started later, and its project is free then", Once: true, Only: Bare},
	{Name: "numa", What: "a Guaranteed pod gets the CPUs and memory of one NUMA node alone, without a quota; all others move to the other CPUs and none restarts; a pod is rejected that no NUMA node has enough for", Once: true, Only: Bare},
	{Name: "numakept", What: "an agent started after kill -9 goes on with CPUs and memory of pods as cgroups and state files have them, and no container restarts", Once: true, Only: Bare},
	{Name: "numafreed", What: "when the pod is gone all others run on all CPUs again, and an agent with other policies starts", Once: true, Only: Bare},
	{Name: "resize", What: "pods of a cluster get more and less CPU and memory while they run, by container and as a whole", Once: true},
	{Name: "iscsi", What: "pods have disks of an iSCSI target, also one that wants CHAP, over a restart of the agent; while it does not answer only who needs it waits, says so and can be deleted; with the last pod the sessions end", Once: true, Only: Bare},
	{Name: "failswap", What: "the agent refuses to start while swap is on, and says so", Once: true},
	{Name: "memoryqos", What: "with MemoryQoS requests are protected and containers slowed down near their limits, also after a daemon-reload", Once: true},
	{Name: "limitedswap", What: "with LimitedSwap a container may swap in proportion to its request, if it is of those that may", Once: true},
	{Name: "systemoom", What: "a process that takes all memory of the machine is killed, the Node tells of it, and no pod restarts", Once: true},
	{Name: "evicted", What: "a pod that takes the memory of the node is evicted, and its cgroup goes; the others stay", Once: true},
	{Name: "unprotected", What: "by an agent without MemoryQoS no memory is protected any more", Once: true},
	{Name: "deletion", What: "pods whose manifests are taken away leave no cgroup, mount, directory or shim"},
	{Name: "warnings", What: "the agent's log has no warning about cgroup v1"},
	{Name: "shutdown", What: "systemctl poweroff waits until the pods have ended, the critical one last, each with its preStop hook", Only: Systemd},
	{Name: "end", What: "after agent and containerd have ended no process and no mount is left", Only: Bare},
}

// Of says whether the check is made on a release in a machine.
func (c Check) Of(m Machine, release lab.Release) bool {
	return (c.Only == "" || c.Only == m) && (!c.Once || release == lab.Releases[len(lab.Releases)-1])
}

// The lines of a report. Texts are quoted as in Go, so that each is one line.
//
//	pass RELEASE CHECK MILLISECONDS
//	fail RELEASE CHECK MILLISECONDS "why"
//	fatal "why"        the guest could not go on
//	end                the guest is done; without it, it died
const (
	linePass  = "pass"
	lineFail  = "fail"
	lineFatal = "fatal"
	lineEnd   = "end"
)

// Reporter writes a report.
type Reporter struct {
	mu sync.Mutex
	to io.Writer
}

// NewReporter writes to the serial port.
func NewReporter(to io.Writer) *Reporter { return &Reporter{to: to} }

// Result tells how a check ended: with nil it passed.
func (r *Reporter) Result(release, check string, took time.Duration, err error) {
	if err == nil {
		r.line("%s %s %s %d", linePass, release, check, took.Milliseconds())
		return
	}
	r.line("%s %s %s %d %q", lineFail, release, check, took.Milliseconds(), err.Error())
}

// Fatal tells that the guest can't go on.
func (r *Reporter) Fatal(err error) { r.line("%s %q", lineFatal, err.Error()) }

// End tells that all checks were made.
func (r *Reporter) End() { r.line(lineEnd) }

func (r *Reporter) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.to, format+"\n", args...)
}

// Result is how a check ended.
type Result struct {
	Err  string // empty: it passed
	Took time.Duration
}

// Report is what a guest has reported.
type Report struct {
	results map[[2]string]Result // by release and check
	Fatal   string
	Ended   bool
	Strange []string // lines that are none
}

// Of is the result of a check, if it was made.
func (r Report) Of(release, check string) (Result, bool) {
	result, ok := r.results[[2]string{release, check}]
	return result, ok
}

// ReadReport reads a report to the end of the stream.
func ReadReport(from io.Reader) (Report, error) {
	report := Report{results: map[[2]string]Result{}}
	lines := bufio.NewScanner(from)
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !report.add(line) {
			report.Strange = append(report.Strange, line)
		}
	}
	return report, lines.Err()
}

func (r *Report) add(line string) bool {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case lineEnd:
		r.Ended = true
		return rest == ""
	case lineFatal:
		text, err := strconv.Unquote(rest)
		r.Fatal = text
		return err == nil
	case linePass, lineFail:
		fields := strings.SplitN(rest, " ", 4)
		if len(fields) < 3 || (len(fields) == 4) != (kind == lineFail) {
			return false
		}
		millis, err := strconv.Atoi(fields[2])
		if err != nil {
			return false
		}
		result := Result{Took: time.Duration(millis) * time.Millisecond}
		if kind == lineFail {
			if result.Err, err = strconv.Unquote(fields[3]); err != nil || result.Err == "" {
				return false
			}
		}
		r.results[[2]string{fields[0], fields[1]}] = result
		return true
	default:
		return false
	}
}
