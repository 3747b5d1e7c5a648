package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"text/template"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// section is one table of the report.
type section uint8

const (
	alone   section = iota // a node without an apiserver
	cluster                // one of a cluster, beside the real kubelet
	simulation
)

// sections are the tables in their order. compared is what the column after the bar shows.
var sections = []struct {
	section                section
	title, intro, compared string
}{
	{alone, "A node of its own", `What the node agent adds to what the runtime alone does. Every floor is measured in the same run, by
the very same CRI requests made directly with no agent running, in turns with the agent's samples. When a
program runs is told by itself: the first thing it does is to append a line to a file on the host,
whose modification time is read. Medians, unless something else is said.`, "floor"},
	{cluster, "A node of a cluster", `The same work on a real etcd and kube-apiserver, seen by a client that watches the pods. The floor makes
the same CRI requests and one status write a pod, with no agent running. The kubelet is that of the
same Kubernetes release, with the same flags and configuration, on the same containerd, in turns with
troupe.`, "floor; kubelet"},
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

These are benchmarks and no tests: a busy machine misses bars. What is not a matter of speed, a pod
lost, doubled, restarted for no reason or left behind, makes the run fail.

` + "`go tool task bench`" + ` measures all of it in about 40 minutes, and with ` + "`-- --rows NAME,…`" + ` some rows; a
section is written anew if all of its rows were measured. It needs root on Debian with runc,
containernetworking-plugins, iptables and containerd (for 1.6). It runs containerds and a control plane of
its own under .run/bench and removes all of it.
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

// document puts sections together: those of fresh, and of old what fresh does not have.
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
