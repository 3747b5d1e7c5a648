package chaos

import "github.com/troupe-dev/troupe/supervisor/chaos/plan"

// Life is one of the lives of pods that sweeps go through.
type Life struct {
	Name string
	Case *plan.Case
	// Stride: TestSweep takes one of so many of its cases, and never more than one of three.
	Stride int
}

// strides are those of lives with many pods and long waits, by name.
var strides = map[string]int{"private": 5, "private-always": 5, "private-pull": 5, "static-unseen": 5}

var lives = []struct{ name, text string }{
	{"plain", "create a main=app; on a Ready +1s: delete a"},
	{"init", "create a init=setup main=app; on a Ready +1s: delete a"},
	{"sidecar", "create a sidecar=proxy main=app; on a Ready +1s: delete a"},
	{"two-containers", "create a main=app main=log volume=data; on a Ready +1s: delete a"},
	{"readiness", "create a main=app ready=app; on a Ready +1s: delete a"},
	{"liveness", "create a main=app live=app app.unhealthy-after=5s; on a/app Ended +20s: delete a"},
	{"startup", "create a main=app startup=app app.startup-time=3s; on a Ready +1s: delete a"},
	{"prestop", "create a main=app prestop=app grace=10; on a Ready +1s: delete a"},
	{"commands", "create a main=app start-command=app stop-command=app app.exec-delay=300ms grace=10; " +
		"on a Ready +1s: delete a"},
	{"ignores-term", "create a main=app grace=3 app.ignore-term=true; on a Ready +1s: delete a"},
	{"job", "create a main=app restart=Never app.run-for=2s app.exit-code=0; on a Succeeded +1s: delete a"},
	{"job-fails", "create a main=app restart=OnFailure app.crash-loop=2; " +
		"on a Ready +30s: exit a/app code=0; on a Succeeded +1s: delete a"},
	{"job-sidecar", "create a sidecar=proxy main=app restart=Never app.run-for=2s app.exit-code=3; " +
		"on a Failed +1s: delete a"},
	{"deadline", "create a main=app deadline=5; on a Failed +1s: delete a"},
	{"crash", "create a main=app; on a Ready: exit a/app code=1; on a Ready +1s: delete a"},
	{"oom", "create a main=app restart=Never; on a Ready: oom a/app; on a Failed +1s: delete a"},
	{"sandbox-dies", "create a init=setup main=app; on a Ready: end-sandbox a; at 40s: delete a"},
	{"image", "create a main=app; on a Ready: image a/app to=registry.test/app:2; at 20s: delete a"},
	{"job-image", "create a main=app restart=OnFailure app.term-exit-code=0; " +
		"on a Ready: image a/app to=registry.test/app:2; at 30s: delete a"},
	{"forced", "create a main=app grace=30 app.ignore-term=true; on a Ready: delete a; on a Ready +1s: force a"},
	{"name-again", "create a main=app; " +
		"on a Ready: delete a; on a Gone: create a main=app; on a Ready +1s: delete a"},
	{"static", "write a main=app volume=data; " +
		"on a Ready: remove a; on a Gone: write a main=app volume=data; on a Ready +1s: remove a"},
	{"static-changes", "write a main=app; on a Ready: write a main=app grace=1; at 20s: remove a"},
	{"alone", "standalone; write a init=setup main=app ready=app; on a Ready +1s: remove a"},
	{"restarted", "create a init=setup main=app ready=app; on a Ready: kill-agent for=1s; at 20s: delete a"},
	{"static-restarted", "write a main=app restart=OnFailure app.crash-loop=1; write b main=app; " +
		"on b Ready: remove b; on b Ready +1s: kill-agent; on a/app Ended +10s: kill-agent; at 40s: remove a"},
	{"restored", "create a main=app; on a Ready: backup; on a Ready +1s: image a/app to=registry.test/app:2; " +
		"create b main=app; at 10s: restore; at 40s: delete a"},
	{"no-answers", "create a main=app ready=app; on a Made: no-answers for=20s; at 60s: delete a"},
	{"no-watches", "create a main=app; on a Ready: no-watches for=20s; on a Ready +1s: delete a"},
	{"sidecar-startup", "create a sidecar=proxy main=app startup=proxy proxy.startup-time=3s; on a Ready: kill-agent; " +
		"on a Ready +5s: exit a/app code=1"},
	{"static-returns", "write a main=app grace=3; on a Ready: remove a; on a Ready +100ms: write a main=app grace=3"},
	{"static-lost", "write a sidecar=proxy main=app restart=Never; on a/app Made: end-sandbox a"},
	{"static-unseen", "write a main=app grace=3; write b main=app; on b Ready: cut-off for=30s; " +
		"on b Ready +1s: kill-agent for=5s; on b Ready +2s: remove a; at 90s: remove b"},
	{"devices", "devices 3; write a main=app gpus=2 cpus=2; write b main=app gpus=1 app.crash-loop=1 app.run-for=2s; " +
		"on b Ready: kill-agent; on a Ready +3s: stop-plugin for=5s; at 20s: remove a; " +
		"on a Gone: write c main=app gpus=2 cpus=1; on c Ready +1s: remove b"},
	{"device-pod", "devices 2; create a init=setup main=app gpus=1 cpus=1; on a Ready: break-gpus for=10s; " +
		"on a Ready +2s: exit a/app code=1; at 30s: delete a"},
	{"csi-pod", "csi attach; create a main=app claim=data; on a Ready +5s: expand claim=data size=2Gi; at 75s: delete a"},
	{"csi-shared", "csi plain; create a main=app claim=data; on a Ready: create b main=app claim=data; " +
		"on b Ready +1s: stop-driver for=5s; at 20s: delete a; on a Gone: delete b"},
	{"private", "create a main=app private=app secret=yes; on a Ready: create b main=app private=app; " +
		"on a Ready +3s: create c main=app private=app secret=yes; on c Ready +20s: delete b; on a Ready: delete a; " +
		"on c Ready +1s: delete c"},
	{"private-always", "create a main=app private=app secret=yes pull=Always; " +
		"on a Ready: create b main=app private=app pull=Never; on a Ready +1s: exit a/app code=1; " +
		"on a/app Ended +15s: create c main=app private=app; at 40s: delete b; at 41s: delete c; at 42s: delete a"},
	{"private-pull", "create a main=app private=app secret=yes; create b main=app private=app pull=Always; " +
		"create c main=app private=app pull=Never; at 30s: delete b; at 31s: delete c; on a Ready +1s: delete a"},
	{"no-events", "no-events; create a init=setup main=app; on a Ready +1s: delete a"},
}

// Lives are those of all kinds of pods, without faults.
func Lives() []Life {
	out := make([]Life, len(lives))
	for i, l := range lives {
		c, err := plan.Parse(l.text)
		if err != nil {
			panic(l.name + ": " + err.Error())
		}
		out[i] = Life{Name: l.name, Case: c, Stride: strides[l.name]}
	}
	return out
}
