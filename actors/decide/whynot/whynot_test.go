package whynot

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/gate"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// base is a pod of one container that is being made.
func base() Input {
	return Input{Now: now, Namespace: "default", Name: "web-1", Life: "Syncing", Phase: "Pending", Containers: []Container{
		{Name: "app", Image: "app:1", Kind: "main", State: waiting, Reason: "ContainerCreating"},
	}}
}

func TestExplain(t *testing.T) {
	waitsFor := func(reason, message string) func(*Input) {
		return func(in *Input) { in.Containers[0].Reason, in.Containers[0].Message = reason, message }
	}
	at := func(g gate.Gate, message string) func(*Input) {
		return func(in *Input) { in.Containers[0].Gate, in.Containers[0].Message = g, message }
	}
	runs := func(in *Input) {
		in.Phase, in.Containers[0].State, in.Containers[0].Reason = "Running", running, ""
	}
	call := func(what, object string, since time.Duration, change func(*Call)) func(*Input) {
		return func(in *Input) {
			c := Call{What: what, Object: object, Since: now.Add(-since)}
			if change != nil {
				change(&c)
			}
			in.Calls = append(in.Calls, c)
		}
	}
	warns := func(container, reason, message string) func(*Input) {
		return func(in *Input) { in.Warnings = append(in.Warnings, Warning{container, reason, message}) }
	}
	queued := func(c *Call) { c.Queued = true }
	for _, tt := range []struct {
		name   string
		change []func(*Input)
		text   string
		next   string // a part of it
		wrong  bool
	}{
		{"ready", []func(*Input){runs, func(in *Input) { in.Ready = true }}, "", "", false},
		{"ready, and a call hangs", []func(*Input){runs, func(in *Input) { in.Ready = true }, call("ContainerStatus", "app", time.Hour, nil)}, "", "", false},
		{"ready, and its actor crashes", []func(*Input){runs, func(in *Input) { in.Ready, in.Problem = true, "its actor is quarantined: index out of range" }},
			"its actor is quarantined: index out of range.", "troupe crashes", true},
		{"ended, and the apiserver does not take it", []func(*Input){
			func(in *Input) { in.Life, in.Phase = "Terminated", "Succeeded" },
			warns("", "StatusRejected", "The apiserver rejected the status of the pod: no such field"),
		}, "The apiserver rejected the status of the pod: no such field.", "pods/status", true},
		{"ended well", []func(*Input){func(in *Input) { in.Phase = "Succeeded" }}, "The pod has completed: all its containers terminated with exit code 0. A completed pod is not ready.", "", false},
		{"rejected", []func(*Input){func(in *Input) {
			in.Life, in.Phase, in.Reason, in.Message = "Rejected", "Failed", "NodeAffinity", "Pod was rejected: no match"
		}}, "The node rejected the pod (NodeAffinity): Pod was rejected: no match.", "another node", true},
		{"no room", []func(*Input){func(in *Input) {
			in.Life, in.Phase, in.Reason, in.Message = "Rejected", "Failed", "OutOfcpu", "too much"
		}},
			"The node rejected the pod (OutOfcpu): too much.", "lower its requests", true},
		{"evicted", []func(*Input){func(in *Input) { in.Phase, in.Reason, in.Message = "Failed", "Evicted", "The node was low on memory." }},
			"The pod has failed: Evicted: The node was low on memory.", "kubectl logs", true},
		{"failed", []func(*Input){func(in *Input) {
			in.Phase = "Failed"
			in.Containers[0] = Container{Name: "app", Kind: "main", State: terminated, Reason: "Error", ExitCode: 3}
		}}, `The pod has failed: container "app" terminated with exit code 3 (Error).`, "-c app", true},
		{"failed, an init container out of memory", []func(*Input){func(in *Input) {
			in.Phase = "Failed"
			in.Containers[0] = Container{Name: "first", Kind: "init", State: terminated, Reason: "OOMKilled"}
		}}, `The pod has failed: container "first" terminated with exit code 0 (OOMKilled).`, "-c first", true},
		{"runtime", []func(*Input){func(in *Input) { in.Runtime, in.RuntimeSince = "connection refused", now.Add(-70*time.Second) }},
			"The container runtime has not answered for 1m10s: connection refused.", "systemctl status containerd", true},
		{"not begun", []func(*Input){func(in *Input) {
			in.Life, in.Missing = "Waiting", []string{"the source api", "the first list of containers from the runtime"}
		}}, "The node does not start pods yet: it waits for the source api and the first list of containers from the runtime.", "", false},
		{"a predecessor", []func(*Input){func(in *Input) { in.Life = "Waiting" }}, "The pod waits for the termination of an older pod with the same name.", "troupe pods", false},

		{"image", []func(*Input){waitsFor("ErrImagePull", "not found")}, `Container "app": the image app:1 cannot be pulled: not found.`, "crictl pull", true},
		{"image, in its backoff", []func(*Input){waitsFor("ImagePullBackOff", "Back-off pulling image"), warns("app", "Failed", `Failed to pull image "app:1": no such host`), warns("app", "Failed", "Error: ImagePullBackOff")},
			`Container "app": the image app:1 cannot be pulled: Failed to pull image "app:1": no such host.`, "crictl pull", true},
		{"image name", []func(*Input){waitsFor("InvalidImageName", "couldn't parse")}, `Container "app" is waiting (InvalidImageName): couldn't parse.`, "Correct the image name", true},
		{"never pulled", []func(*Input){waitsFor("ErrImageNeverPull", "not there")}, `Container "app" is waiting (ErrImageNeverPull): not there.`, "policy is Never", true},
		{"crash loop", []func(*Input){waitsFor("CrashLoopBackOff", "back-off 40s"), func(in *Input) {
			in.Containers[0].Last = &End{Reason: "OOMKilled", ExitCode: 137, At: now.Add(-20 * time.Second)}
		}}, `Container "app" is in a crash loop and waits for the end of its restart backoff: its last run terminated with exit code 137 (OOMKilled) 20s ago.`, "--previous", true},
		{"configuration", []func(*Input){waitsFor("CreateContainerConfigError", `configmap "none" not found`)}, `Container "app" cannot be created: configmap "none" not found.`, "ConfigMap", true},
		{"start", []func(*Input){waitsFor("RunContainerError", "exec: no such file")}, `Container "app" cannot be started: exec: no such file.`, "Correct its command", true},
		{"hook", []func(*Input){waitsFor("PostStartHookError", "exit code 1")}, `The postStart hook of container "app" failed: exit code 1.`, "Correct the hook", true},
		{"another reason", []func(*Input){waitsFor("Odd", "words")}, `Container "app" is waiting (Odd): words.`, "troupe timeline", true},

		{"probe says no", []func(*Input){runs, warns("app", "Unhealthy", "Readiness probe failed: 503"), warns("", "Other", "x")},
			`Container "app" is running, but its probe fails: Readiness probe failed: 503.`, "kubectl logs -n default web-1 -c app. The container", true},
		{"probe of another", []func(*Input){runs, warns("side", "Unhealthy", "x")}, `Container "app" is running, but its probes have not succeeded yet.`, "", false},
		{"it ended", []func(*Input){func(in *Input) {
			in.Phase = "Running"
			in.Containers[0] = Container{Name: "app", Kind: "main", State: terminated, ExitCode: 1, Reason: "Error"}
		}}, `Container "app" terminated with exit code 1 (Error).`, "web-1 -c app.", true},
		{"init container", []func(*Input){func(in *Input) {
			in.Containers = append([]Container{{Name: "first", Kind: "init", State: running}}, in.Containers...)
		}}, `Init container "first" is running: the next containers start after it has completed.`, "", false},
		{"debugged", []func(*Input){runs, func(in *Input) {
			in.Containers[0].Ready, in.Unready = true, `the status of pod readiness gate "x" is not "True", but False`
			in.Containers = append(in.Containers, Container{Name: "debug", Kind: "ephemeral", State: terminated, ExitCode: 1})
		}}, `The containers are ready, but the pod is not: the status of pod readiness gate "x" is not "True", but False.`, "readiness gate", true},

		{"mount", []func(*Input){at(gate.Volumes, `MountVolume.SetUp failed for volume "v" : configmap "none" not found`)},
			`A volume cannot be mounted: MountVolume.SetUp failed for volume "v" : configmap "none" not found.`, "Create the object that the volume refers to", true},
		{"its volumes are on their way", []func(*Input){at(gate.Volumes, "")}, `Container "app" is about to be created.`, "", false},
		{"a gate that opens by itself", []func(*Input){at(gate.Hook, "waiting for the postStart hook of container x")},
			`Container "app" is about to be created: waiting for the postStart hook of container x.`, "", false},
		{"a warning of a failed mount", []func(*Input){runs, warns("", "FailedMount", "x")}, `Container "app" is running, but its probes have not succeeded yet.`, "", false},
		{"sandbox", []func(*Input){at(gate.Sandbox, "cni")}, "The sandbox of the pod cannot be created: cni.", "network plugin", true},
		{"cgroup", []func(*Input){at(gate.Cgroup, "no space")}, "The cgroup of the pod cannot be created: no space.", "cgroup file system", true},
		{"claims", []func(*Input){at(gate.Claims, "no driver")}, "The resource claims of the pod are not prepared: no driver.", "driver", true},

		{"a call hangs", []func(*Input){call("CreateContainer", "app", 2*time.Minute, nil), call("MountVolume", "v", time.Minute, nil)}, "CreateContainer app has had no answer for 2m0s.", "container runtime", true},
		{"a mount hangs", []func(*Input){call("MountVolume", "nfs", time.Minute, nil)}, "MountVolume nfs has had no answer for 1m0s.", "file system", true},
		{"a pull takes long", []func(*Input){call("PullImage", "app:1", 2*time.Minute, func(c *Call) { c.Patience = time.Minute })}, "PullImage app:1 has had no answer for 2m0s.", "registry", true},
		{"overdue", []func(*Input){call("StartContainer", "app", time.Second, func(c *Call) { c.Overdue = true })}, "StartContainer app has had no answer for 1s.", "after its deadline", true},
		{"a pull", []func(*Input){call("PullImage", "app:1", 20*time.Second, func(c *Call) { c.Patience = time.Minute })}, "The pod is starting: PullImage app:1, for 20s.", "", false},
		{"its turn", []func(*Input){call("RunPodSandbox", "web", 20*time.Second, queued)}, "RunPodSandbox web has been queued for 20s: other pods of the node start first.", "", false},
		{"a probe that takes long", []func(*Input){runs, call("ExecProbe", "app", time.Minute, func(c *Call) { c.Probe = true })}, `Container "app" is running, but its probes have not succeeded yet.`, "", false},
		{"nothing yet", nil, `Container "app" is about to be created.`, "", false},
		{"nothing at all", []func(*Input){func(in *Input) { in.Containers = nil }}, "The pod has started, but its state is not known yet.", "", false},

		{"ending", []func(*Input){runs, func(in *Input) { in.Life = "Terminating" }}, `The pod is terminating: waiting for container "app" to exit within the grace period.`, "", false},
		{"ending, a stop hangs", []func(*Input){runs, func(in *Input) { in.Life = "Terminating" }, call("StopContainer", "app", 2*time.Hour, nil)},
			"The pod is terminating. StopContainer app has had no answer for 2h0m.", "runtime", true},
		{"can't end", []func(*Input){func(in *Input) {
			in.Life, in.Problem, in.Containers[0].State = "Terminating", "UnmountVolume: busy", terminated
		}},
			"The pod is terminating, but termination fails: UnmountVolume: busy.", "troupe timeline", true},
		{"tidied", []func(*Input){func(in *Input) { in.Life, in.Containers[0].State = "Terminating", terminated }}, "The pod is terminating: its containers have exited, and the remaining resources are being removed.", "", false},
		{"being tidied", []func(*Input){func(in *Input) { in.Life, in.Containers[0].State = "Terminating", terminated }, call("StopPodSandbox", "web", time.Second, nil)},
			"The pod is terminating: StopPodSandbox web, for 1s.", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := base()
			for _, c := range tt.change {
				c(&in)
			}
			got := Explain(&in)
			if got.Text != tt.text || !strings.Contains(got.Next, tt.next) || got.Wrong != tt.wrong || (got.Next == "") != (tt.next == "") {
				t.Errorf("%+v\nwant %q, %q, %t", got, tt.text, tt.next, tt.wrong)
			}
		})
	}
}

// TestAlwaysASentence: whatever is known, a pod that is not ready has one reason that people can read.
func TestAlwaysASentence(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "x", "Error", "ContainerCreating", "CrashLoopBackOff", "ErrImagePull", strings.Repeat("long ", 200), "two\nlines", "ends."})
	rapid.Check(t, func(t *rapid.T) {
		in := Input{
			Now: now, Life: rapid.SampledFrom([]string{"Syncing", "Terminating", "Terminated", "Rejected", "Waiting"}).Draw(t, "life"),
			Phase: rapid.SampledFrom([]string{"Pending", "Running", "Failed", "Succeeded", "Unknown"}).Draw(t, "phase"), Ready: rapid.Bool().Draw(t, "ready"),
			Reason: word.Draw(t, "reason"), Message: word.Draw(t, "message"), Problem: word.Draw(t, "problem"), Unready: word.Draw(t, "unready"), Runtime: word.Draw(t, "runtime"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "containers") {
			in.Containers = append(in.Containers, Container{
				Name: "c", Kind: rapid.SampledFrom([]string{"init", "sidecar", "main", "ephemeral"}).Draw(t, "kind"),
				State: rapid.SampledFrom([]string{waiting, running, terminated}).Draw(t, "state"), Ready: rapid.Bool().Draw(t, "container ready"),
				Gate: gate.Gate(rapid.IntRange(0, int(gate.Retry)).Draw(t, "gate")), Reason: word.Draw(t, "waits"), Message: word.Draw(t, "said"), ExitCode: rapid.Int32Range(0, 1).Draw(t, "code"),
			})
		}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			in.Calls = append(in.Calls, Call{What: "K", Queued: rapid.Bool().Draw(t, "queued"), Probe: rapid.Bool().Draw(t, "probe"), Since: now.Add(-time.Duration(rapid.IntRange(0, 1e6).Draw(t, "since")) * time.Millisecond)})
		}
		for range rapid.IntRange(0, 2).Draw(t, "warnings") {
			in.Warnings = append(in.Warnings, Warning{"c", rapid.SampledFrom([]string{"Unhealthy", "FailedMount", "Failed", "StatusRejected"}).Draw(t, "event"), word.Draw(t, "words")})
		}
		a := Explain(&in)
		if a.Text == "" {
			if !in.Ready || in.Life != "Syncing" {
				t.Fatalf("nothing is said of %+v", in)
			}
			return
		}
		if !strings.HasSuffix(a.Text, ".") || strings.ContainsAny(a.Text, "\n\t") || len(a.Text) > 1000 {
			t.Fatalf("%q", a.Text)
		}
	})
}
