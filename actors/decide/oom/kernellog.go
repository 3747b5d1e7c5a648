// Package oom decides what is reported of the kernel's OOM killer: it reads the kernel's log, and says which
// events the node and its pods get.
package oom

import (
	"strconv"
	"strings"
)

// Kill is one or more processes that the OOM killer ended.
type Kill struct {
	// PID and Process are the last one's, in the kernel's own PID namespace; 0 and empty if only a counter says so.
	PID     int
	Process string
	// Cgroup is where the process was, from the root of the hierarchy. Limit is the cgroup that reached its memory
	// limit. Both are empty if the kernel did not say so.
	Cgroup, Limit string
	// Container is the runtime's ID, if that is what is known instead of Cgroup.
	Container string
	// System: the machine ran out of memory, and no cgroup reached a limit.
	System bool
	// More is how many others were killed with it.
	More uint64
}

// Parser finds kills in the kernel's log. One kill is several records, which this remembers. The zero value is
// ready.
//
// Kernels from 5.0 on write one line with everything before the victim is named:
//
//	oom-kill:constraint=…,oom_memcg=LIMIT,task_memcg=CGROUP,task=NAME,pid=N,uid=N
//	oom-kill:constraint=…,global_oom,task_memcg=CGROUP,task=NAME,pid=N,uid=N
//	Memory cgroup out of memory: Killed process N (NAME) …
//
// Older ones write, where the process may be a child of the one that was chosen first:
//
//	Task in CGROUP killed as a result of limit of LIMIT
//	Killed process N (NAME) …
type Parser struct {
	// last is what the lines before said; known: they named the cgroups or said that there was no limit.
	last  Kill
	known bool
}

// kernelFacility: only the kernel itself writes records of this facility (Documentation/ABI/testing/dev-kmsg).
const kernelFacility = 0

// Record reads one record of /dev/kmsg, and returns the kill that it completes. Records of other writers than the
// kernel are ignored: each process with access to /dev/kmsg can write there.
func (p *Parser) Record(record string) (Kill, bool) {
	head, text, ok := strings.Cut(record, ";")
	if !ok {
		return Kill{}, false
	}
	prefix, _, _ := strings.Cut(head, ",")
	priority, err := strconv.ParseUint(prefix, 10, 32)
	if err != nil || priority>>3 != kernelFacility {
		return Kill{}, false
	}
	text, _, _ = strings.Cut(text, "\n") // the rest is its dictionary
	return p.Line(unescaped(text))
}

// Line is Record for the text of a record of the kernel.
func (p *Parser) Line(text string) (Kill, bool) {
	switch {
	case strings.Contains(text, " invoked oom-killer: "):
		*p = Parser{}
	case strings.HasPrefix(text, "oom-kill:constraint="):
		*p = Parser{last: summary(text), known: true}
	case strings.HasPrefix(text, "Task in "):
		cgroup, limit, ok := strings.Cut(strings.TrimPrefix(text, "Task in "), " killed as a result of limit of ")
		if ok {
			*p = Parser{last: Kill{Cgroup: cgroup, Limit: strings.TrimSpace(limit)}, known: true}
		}
	case strings.HasPrefix(text, "Tasks in "): // memory.oom.group: all in it are killed
		cgroup, _, ok := strings.Cut(strings.TrimPrefix(text, "Tasks in "), " are going to be killed")
		if ok && p.known {
			p.last.Cgroup = cgroup
		}
	default:
		return p.killed(text)
	}
	return Kill{}, false
}

// summary reads the line of kernels from 5.0 on. The name of a process may have commas, those of cgroups too; the
// last two fields have not.
func summary(text string) (k Kill) {
	_, rest, found := strings.Cut(text, ",oom_memcg=")
	if found {
		k.Limit, rest, _ = strings.Cut(rest, ",task_memcg=")
	} else {
		before, after, _ := strings.Cut(text, ",task_memcg=")
		k.System, rest = strings.HasSuffix(before, ",global_oom"), after
	}
	k.Cgroup, _, _ = strings.Cut(rest, ",task=")
	return k
}

// killed reads the line that names the victim.
func (p *Parser) killed(text string) (k Kill, ok bool) {
	before, rest, ok := strings.Cut(text, "Killed process ")
	memcg := strings.HasPrefix(before, "Memory cgroup out of memory")
	global := strings.HasPrefix(before, "Out of memory")
	if !ok || before != "" && !memcg && !global {
		return k, false
	}
	number, rest, _ := strings.Cut(rest, " (")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return k, false
	}
	// The name itself may have parentheses. Before 4.5 or so, what follows it began with a comma in some kernels.
	end := strings.LastIndex(rest, ") total-vm:")
	if end < 0 {
		end = strings.LastIndex(rest, "), UID ")
	}
	if end < 0 {
		end = strings.LastIndexByte(rest, ')')
	}
	if end < 0 {
		return k, false
	}
	k = p.last
	k.PID, k.Process = pid, rest[:end]
	if !p.known {
		k.System = !memcg
	}
	return k, true
}

// unescaped undoes what /dev/kmsg does to control characters and backslashes: \x0a.
func unescaped(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) && text[i+1] == 'x' {
			if n, err := strconv.ParseUint(text[i+2:i+4], 16, 8); err == nil {
				out = append(out, byte(n))
				i += 3
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}
