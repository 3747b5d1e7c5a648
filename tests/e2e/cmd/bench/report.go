package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/template"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// section is one table of the report.
type section uint8

const (
	alone     section = iota // a node without an apiserver
	cluster                  // one of a cluster, beside the real kubelet
	volumes                  // one of a cluster, with volumes of CSI drivers
	shortages                // one of a cluster that runs short
	shutdowns                // one of a cluster whose machine shuts down
	simulation
)

// sectionOfReport is a table. compared is what the column after the bar shows.
type sectionOfReport struct {
	section                section
	title, intro, compared string
}

// sections are the tables in their order.
var sections = []sectionOfReport{
	{alone, "A node of its own", `The cost of the node agent on top of the runtime. The floor is the cost of the runtime alone: the same CRI requests,
made without an agent. Samples of the floor and of the agent alternate in one run. A program reports its own start:
first it appends a line to a file on the host, and the benchmark reads the modification time of this file.
Values are medians unless stated otherwise.`, "floor"},
	{cluster, "A node of a cluster", `The same work on a real etcd and kube-apiserver, measured by a client that watches the pods. The floor makes
the same CRI requests and one status write per pod, without an agent. The kubelet has the same Kubernetes
release, flags, configuration and containerd, and its samples alternate with those of troupe.`, "floor; kubelet"},
	{volumes, "Volumes of CSI drivers", `A node of a cluster with a real etcd and kube-apiserver, measured by a client that watches the pods. The driver makes
directories and mounts them. The benchmark plays the controllers of storage: volumes are bound and attached before the
pods come. What the driver takes is the time in which it had at least one call. The kubelet has the same Kubernetes
release, flags, configuration, containerd and driver, and its rounds alternate with those of troupe.
The hostile driver is the mock driver of Kubernetes. One of its pods begins and one ends when the pods of the other
driver start. The rounds before and after have the same pods of the same driver, which is healthy then.`, "without volumes, or beside a healthy driver; kubelet"},
	{shortages, "A node that runs short", `A pod without limits takes all memory of the pods, or all of the node's disk, beside pods that sleep. The times are
from when the threshold was passed, which is read from the kernel every 20 ms, until the agent's event of the
eviction. Pods are given 1.5 GiB of the machine's memory (systemReserved), and the root directory of the agent is a
small file system in memory. Pods that an agent has not removed a minute after their deletion are ended without it.
The kubelet has the same Kubernetes release, flags, configuration and containerd.`, "kubelet"},
	{shutdowns, "A machine that shuts down", `A systemd-logind of the benchmark says that the machine shuts down, and waits until the agent gives its lock back
(shutdownGracePeriodByPodPriority, 20 s for each priority). Each program takes 200 ms to end, and the first pod of
every four has a preStop hook. The times are from when the shutdown was announced: for ends and hooks those of the
files that they write, otherwise when a watch of the apiserver told it. The kubelet has the same Kubernetes release,
flags, configuration and containerd.`, "kubelet"},
	{simulation, "The simulated world", `The same actors on simulated runtimes and an apiserver in memory (docs/simulation.md), in one process.`, "compared with"},
}

// result is one line of a table, and what lies behind it.
type result struct {
	section section
	what    string
	bar     string
	// floor is what it is compared with.
	floor    string
	measured string
	ratio    string // or difference: what the bar is about
	verdict  string
	details  []string // lines below the table
}

// verdicts of a bar.
func verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "**missed**"
}

var sectionTemplate = template.Must(template.New("section").Parse(`## {{.Title}}

{{.Intro}}

Measured on {{.Machine}}, by

    {{.Command}}

| what | bar | {{.Compared}} | troupe | difference or ratio | verdict |
|---|---|---|---|---|---|
{{range .Rows}}| {{.What}} | {{.Bar}} | {{.Floor}} | {{.Measured}} | {{.Ratio}} | {{.Verdict}} |
{{end}}{{if .Wrong}}
Wrong in this run:

{{range .Wrong}}- {{.}}
{{end}}{{end}}{{range .Rows}}{{if .Details}}
**{{.What}}**

{{range .Details}}- {{.}}
{{end}}{{end}}{{end}}`))

// preamble stands before the sections.
const preamble = `# Benchmarks

These are benchmarks, not tests: a busy machine can miss a target (column ` + "`bar`" + `). A run fails only for errors
that are independent of speed: a pod that is lost, duplicated, restarted without a reason, or left behind.

` + "`go tool task bench`" + ` runs all benchmarks in about 40 minutes, or some rows with ` + "`-- --rows NAME,…`" + `. A section
is rewritten only if all of its rows were measured. The benchmarks need root on Debian with runc,
containernetworking-plugins, iptables and containerd (for 1.6). They run their own containerds and their own
control plane under .run/bench, and remove them at the end.
`

// report gives the sections of which something was measured, by their titles.
func (b *bench) report(ctx context.Context, results []result) map[string]string {
	type line struct {
		What, Bar, Floor, Measured, Ratio, Verdict string
		Details                                    []string
	}
	command := "go tool task bench"
	if len(b.chosen) > 0 {
		command += " -- " + strings.Join(b.chosen, " ")
	}
	machine := b.machine(ctx)
	texts := map[string]string{}
	for _, in := range sections {
		var lines []line
		for _, r := range results {
			if r.section == in.section {
				lines = append(lines, line{r.what, dash(r.bar), dash(r.floor), dash(r.measured), dash(r.ratio), dash(r.verdict), r.details})
			}
		}
		if len(lines) == 0 {
			continue
		}
		var text bytes.Buffer
		err := sectionTemplate.Execute(&text, map[string]any{
			"Title": in.title, "Intro": in.intro, "Compared": in.compared, "Machine": machine, "Command": command,
			"Rows": lines, "Wrong": b.wrong,
		})
		if err != nil {
			panic(err) // the template is ours
		}
		texts[in.title] = text.String()
	}
	return texts
}

// document puts sections together: those of fresh, and of old what fresh does not have. What other programs measure comes
// last.
func document(old string, fresh map[string]string) string {
	text := preamble
	for _, in := range sections {
		block := fresh[in.title]
		if block == "" {
			block = sectionOf(old, in.title)
		}
		if block != "" {
			text += "\n" + strings.TrimRight(block, "\n") + "\n"
		}
	}
	for i, block := range strings.Split(old, "\n## ") {
		title, _, _ := strings.Cut(block, "\n")
		if i > 0 && !slices.ContainsFunc(sections, func(s sectionOfReport) bool { return s.title == title }) {
			text += "\n## " + strings.TrimRight(block, "\n") + "\n"
		}
	}
	return text
}

// sectionOf is a section of a document, empty if it has none of that title.
func sectionOf(text, title string) string {
	_, rest, found := strings.Cut(text, "\n## "+title+"\n")
	if !found {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return "## " + title + "\n" + rest
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// machine describes what was measured on.
func (b *bench) machine(ctx context.Context) string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		parts = append(parts, fmt.Sprintf("%.0f GiB of memory", float64(info.Totalram)*float64(info.Unit)/(1<<30)))
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
		parts = append(parts, "Linux "+version)
	}
	cgroup := "cgroup v1"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		cgroup = "cgroup v2"
	}
	parts = append(parts, cgroup)
	for _, release := range []string{"2", "1.6"} {
		for r, l := range b.labs {
			if string(r) != release {
				continue
			}
			if v, err := l.Runtime().Version(ctx, &runtimeapi.VersionRequest{}); err == nil {
				parts = append(parts, "containerd "+strings.TrimPrefix(v.RuntimeVersion, "v"))
			}
		}
	}
	return strings.Join(parts, ", ")
}
