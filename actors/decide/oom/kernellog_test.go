package oom

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	podV1    = "/kubepods/pod951f6bc5-c5a5-11ea-8707-80e455f266a2"
	inPodV1  = podV1 + "/024952d653ef1cd852f875a61bd27cf45cb1fd6cab3659ca7e5f12f037d99aa9"
	podSlice = "/lxc/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podeded8c65_6e8e_4c6e_a889_3e427565c740.slice"
	inSlice  = podSlice + "/cri-containerd-ec9ee26695deb4cc72bc665efff1cf3a03fdfb12f1303e02fe9252985e084a95.scope"
)

// TestKernels: what kernels write. Lines that say nothing of use are left out.
func TestKernels(t *testing.T) {
	for _, tt := range []struct {
		name, log string
		want      []Kill
	}{
		// kubernetes/kubernetes issue 56891
		{"3.10, a child of the chosen one", `java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=-998
java cpuset=1e479e759020fa0b6c72def90973540a2d33982fea2ad67a96373b4da751a820 mems_allowed=0
CPU: 9 PID: 14881 Comm: java Tainted: G    B          ------------ T 3.10.0-327.4.5.el7.x86_64 #1
Task in ` + inPodV1 + ` killed as a result of limit of ` + inPodV1 + `
memory: usage 524220kB, limit 524288kB, failcnt 1146
[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name
[28438]     0 28438  5063909   119961    1661   136409          -998 java
Memory cgroup out of memory: Kill process 24572 (java) score 0 or sacrifice child
Killed process 28438 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB`,
			[]Kill{{PID: 28438, Process: "java", Cgroup: inPodV1, Limit: inPodV1}}},
		// kubernetes/kubernetes issue 50632
		{"3.10 with patches", `node invoked oom-killer: gfp_mask=0x50, order=0, oom_score_adj=968
Task in ` + inPodV1 + ` killed as a result of limit of ` + podV1 + `
Memory cgroup out of memory: Kill process 799153 (node) score 1500 or sacrifice child
Killed process 799153 (node), UID 1000, total-vm:606096kB, anon-rss:68308kB, file-rss:13648kB, shmem-rss:0kB`,
			[]Kill{{PID: 799153, Process: "node", Cgroup: inPodV1, Limit: podV1}}},
		{"as in the source of 4.15, all memory", `stress invoked oom-killer: gfp_mask=0x14280ca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), nodemask=(null), order=0, oom_score_adj=0
stress cpuset=/ mems_allowed=0
Out of memory: Kill process 2011 (stress) score 862 or sacrifice child
Killed process 2012 (stress) total-vm:7950032kB, anon-rss:7012032kB, file-rss:212kB, shmem-rss:0kB
oom_reaper: reaped process 2012 (stress), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB`,
			[]Kill{{PID: 2012, Process: "stress", System: true}}},
		// docker/for-linux issue 1001
		{"5.4, all memory, and no summary", `Out of memory: Killed process 15784 (python3) total-vm:11964kB, anon-rss:4288kB, file-rss:3028kB, shmem-rss:0kB
oom_reaper: reaped process 15784 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
Out of memory: Killed process 15925 ((resolved)) total-vm:168424kB, anon-rss:4064kB, file-rss:3584kB, shmem-rss:0kB`,
			[]Kill{{PID: 15784, Process: "python3", System: true}, {PID: 15925, Process: "(resolved)", System: true}}},
		// 0jc1/py-autovod issue 7
		{"5.15, all memory", `python invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/init.scope,task=python,pid=7899,uid=0
Out of memory: Killed process 7899 (python) total-vm:26184840kB, anon-rss:15370088kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:38964kB oom_score_adj:0`,
			[]Kill{{PID: 7899, Process: "python", Cgroup: "/init.scope", System: true}}},
		// leptonai/gpud pull request 70
		{"5.15, the limit of a pod, in a container", `pt_main_thread invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=999
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-ec9ee26695deb4cc72bc665efff1cf3a03fdfb12f1303e02fe9252985e084a95.scope,mems_allowed=0-1,oom_memcg=` + podSlice + `,task_memcg=` + inSlice + `,task=pt_main_thread,pid=461754,uid=0
Memory cgroup out of memory: Killed process 461754 (pt_main_thread) total-vm:19020348kB, anon-rss:18040104kB, file-rss:81152kB, shmem-rss:0kB, UID:0 pgtables:36668kB oom_score_adj:999`,
			[]Kill{{PID: 461754, Process: "pt_main_thread", Cgroup: inSlice, Limit: podSlice}}},
		{"6.18", `dd invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[  18033]     0 18033    26344     7687     7264      423         0   106496        0             0 dd
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/tmem,task_memcg=/tmem/kid,task=dd,pid=18033,uid=0
Memory cgroup out of memory: Killed process 18033 (dd) total-vm:105376kB, anon-rss:29056kB, file-rss:1692kB, shmem-rss:0kB, UID:0 pgtables:104kB oom_score_adj:0`,
			[]Kill{{PID: 18033, Process: "dd", Cgroup: "/tmem/kid", Limit: "/tmem"}}},
		{"as in the source of 6.1, memory.oom.group", `sh invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/g,task_memcg=/g/a/b,task=x,pid=11,uid=0
Memory cgroup out of memory: Killed process 11 (x) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0
Tasks in /g/a are going to be killed due to memory.oom.group set
Memory cgroup out of memory: Killed process 12 (y z) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0`,
			[]Kill{{PID: 11, Process: "x", Cgroup: "/g/a/b", Limit: "/g"}, {PID: 12, Process: "y z", Cgroup: "/g/a", Limit: "/g"}}},
		{"the line with the cgroups was lost", `Memory cgroup out of memory: Killed process 12 (y) total-vm:1kB, anon-rss:1kB`,
			[]Kill{{PID: 12, Process: "y"}}},
		{"nothing of it", "Task dump for CPU 1:\nTask in /a is fine\noom_reaper: reaped process 12 (y)\nKilled process\nKilled process x (y)\n" +
			"systemd: Killed process 12 (y) total-vm:1kB", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p Parser
			var got []Kill
			for i, line := range strings.Split(tt.log, "\n") {
				if k, ok := p.Record("6," + strconv.Itoa(i) + ",502432605,-;" + line + "\n SUBSYSTEM=x\n"); ok {
					got = append(got, k)
				}
			}
			check.Deep(t, got, tt.want, "got")
		})
	}
}

func TestOnlyTheKernelIsBelieved(t *testing.T) {
	const text = ",1,2,-;Out of memory: Killed process 1 (init) total-vm:1kB\n"
	for prefix, want := range map[string]bool{"3": true, "6": true, "11": false, "14": false, "x": false, "": false, "-1": false} {
		var p Parser
		if _, got := p.Record(prefix + text); got != want {
			t.Errorf("priority %q: %v, want %v", prefix, got, want)
		}
	}
	var p Parser
	if k, ok := p.Record("3,1,2,-;Out of memory: Killed process 1 (a\\x0ab\\x5cx) total-vm:1kB"); !ok || k.Process != "a\nb\\x" {
		t.Errorf("%q", k.Process)
	}
}

// TestAnyName: no name of a process or cgroup confuses the parser.
func TestAnyName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z(), =:]{1,15}`).Draw(t, "name")
		cgroup := rapid.StringMatching(`(/[a-z0-9._,-]{1,20}){1,4}`).Draw(t, "cgroup")
		limit := rapid.SampledFrom([]string{"", "/", cgroup}).Draw(t, "limit")
		pid := rapid.IntRange(1, 4194304).Draw(t, "pid")
		of := ",oom_memcg=" + limit
		kind := "Memory cgroup out of memory"
		if limit == "" {
			of, kind = ",global_oom", "Out of memory"
		}
		if strings.Contains(name, ",task=") || strings.Contains(name, ") total-vm:") {
			return
		}
		var p Parser
		n := strconv.Itoa(pid)
		if _, ok := p.Line("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0" + of + ",task_memcg=" +
			cgroup + ",task=" + name + ",pid=" + n + ",uid=0"); ok {
			t.Fatal("a kill before it was said")
		}
		k, ok := p.Line(kind + ": Killed process " + n + " (" + name + ") total-vm:1kB, UID:0 pgtables:104kB oom_score_adj:0")
		if want := (Kill{PID: pid, Process: name, Cgroup: cgroup, Limit: limit, System: limit == ""}); !ok || k != want {
			t.Fatalf("got %+v, want %+v", k, want)
		}
	})
}

// TestAnyText: whatever is in the log, the parser goes on.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Parser
		part := rapid.SampledFrom([]string{"oom-kill:constraint=", ",oom_memcg=", ",task_memcg=", ",task=", "Killed process ", "(a)", "7",
			" total-vm:", "Task in ", " killed as a result of limit of ", "Memory cgroup out of memory: ", ";", "6,", `\x`, `\x0`, ")", "\n", "/"})
		for _, line := range rapid.SliceOfN(rapid.SliceOf(part), 1, 5).Draw(t, "lines") {
			p.Record(strings.Join(line, ""))
		}
		p.Line("x invoked oom-killer: y")
		if k, ok := p.Record("3,1,1,-;Out of memory: Killed process 5 (x) total-vm:1kB"); !ok || k != (Kill{PID: 5, Process: "x", System: true}) {
			t.Fatalf("after that: %+v", k)
		}
	})
}
