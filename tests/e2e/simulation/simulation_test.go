package simulation

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// deployment is one of small pods with a readiness probe. Their image is there in
// no time, and what they name of other objects is made up.
func deployment(name string, replicas int, annotations string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {sim.troupe.dev/image-size: 1Mi%[3]s}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: c
        image: registry.test/web:1
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: LEVEL, valueFrom: {configMapKeyRef: {name: not-there, key: level}}}
        volumeMounts: [{name: keys, mountPath: /keys, subPath: tls.key}, {name: tmp, mountPath: /tmp}]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 5}
      volumes:
      - {name: keys, secret: {secretName: not-there, items: [{key: tls.key, path: tls.key}]}}
      - {name: tmp, emptyDir: {medium: Memory}}
`, name, replicas, annotations)
}

// TestCluster is what a user does: nodes join, a Deployment is rolled out on them by
// the real scheduler, changed, and taken away, and kubectl shows ordinary nodes and pods.
//
//tier:served
func TestCluster(t *testing.T) {
	b := theBed(t)
	b.removed(t, "one")
	s := b.sim(t, "--nodes", "12", "--name", "one", "--node-prefix", "one-", "--json", "--node-labels", "pool=test", "--node-capacity", "pods=20")
	const ours = "sim.troupe.dev/simulation=one"
	eventually(t, "12 nodes", func() error {
		out := b.kubectlDo(t, "get", "nodes", "-l", ours+",pool=test", "-o", "name")
		n := len(strings.Fields(out))
		return check.That(n == 12, "there are %d", n)
	})
	b.kubectlDo(t, "wait", "--for=condition=Ready", "nodes", "-l", ours, "--timeout=60s")
	if out := b.kubectlDo(t, "get", "nodes", "one-00003", "-o", "jsonpath={.status.capacity.pods} {.status.nodeInfo.containerRuntimeVersion}"); !strings.HasPrefix(out, "20 simcri://") {
		t.Errorf("the node shows %q", out)
	}
	w := b.witness(t)

	b.apply(t, deployment("web", 40, ""))
	b.apply(t, deployment("crash", 2, `, sim.troupe.dev/crash-loop: "true", sim.troupe.dev/run-for: 500ms`))
	b.afterwards(t, "delete", "deployment", "web", "crash", "--ignore-not-found")
	b.kubectlDo(t, "rollout", "status", "deployment/web", "--timeout=60s")
	eventually(t, "crashed pods are restarted", func() error {
		n := w.restarts("crash-")
		return check.That(n >= 4, "there were %d restarts", n)
	})
	eventually(t, "the pods that crash were shown in CrashLoopBackOff", func() error {
		n := w.looped("crash-")
		return check.That(n == 2, "%d of 2 were", n)
	})
	check.Count(t, w.looped("web-"), 0, "%d pods that do not crash were shown in CrashLoopBackOff")
	eventually(t, "events of pods", func() error {
		out := b.kubectlDo(t, "get", "events", "--field-selector", "reason=Started", "-o", "name")
		return check.That(out != "", "there are none")
	})

	b.kubectlDo(t, "set", "image", "deployment/web", "c=registry.test/web:2")
	b.kubectlDo(t, "rollout", "status", "deployment/web", "--timeout=60s")
	b.kubectlDo(t, "delete", "deployment", "web", "crash", "--wait")
	eventually(t, "the pods are gone", func() error {
		out := b.kubectlDo(t, "get", "pods", "-o", "name")
		return check.That(out == "", "there are:\n%s", out)
	})
	w.check(t, 20*time.Second) // half of the lease
	sum := s.end()
	if sum["nodes"] != 12.0 || sum["nodesHere"] != 12.0 || sum["nodesTaken"] != 12.0 || sum["crashes"] != 0.0 || sum["leasesLate"] != 0.0 || sum["fenced"] != 0.0 {
		t.Errorf("the summary is %v", sum)
	}
	if out := b.kubectlDo(t, "get", "leases", "-n", "troupe-sim", "-l", ours, "-o", "jsonpath={.items[*].spec.holderIdentity}"); strings.TrimSpace(out) != "" {
		t.Errorf("after its end leases are held by %q", out)
	}
	if text := s.stderr.String(); strings.Contains(text, "WRN") || strings.Contains(text, "ERR") {
		t.Errorf("it had trouble:\n%s", text)
	}
}

// TestTakeover: three processes share the nodes; one is killed, one is ended, one
// joins. Nobody who watches the cluster can tell.
//
//tier:served
func TestTakeover(t *testing.T) {
	b := theBed(t)
	b.removed(t, "three")
	// An apiserver of a busy machine may take seconds for an answer; a process that can't renew its lease
	// meanwhile stops its nodes, as it has to. So it is not too short, and whether that happened is told
	// below and no mistake, if nobody who watches can tell.
	const lease = 12 * time.Second
	process := func(name string) *sim {
		return b.sim(t, "--nodes", "30", "--name", "three", "--node-prefix", "three-", "--json", "--identity", name, "--lease-duration", lease.String())
	}
	shared := func(want map[string]int) func() error {
		return func() error {
			have := b.holders(t, "three")
			return check.That(fmt.Sprint(have) == fmt.Sprint(want), "the slots are held by %v", have)
		}
	}
	first, second := process("a"), process("b")
	victim := process("c")
	eventually(t, "each has a third", shared(map[string]int{"a": 10, "b": 10, "c": 10}))
	eventually(t, "30 nodes", func() error {
		out := b.kubectlDo(t, "get", "nodes", "-l", "sim.troupe.dev/simulation=three", "-o", "json")
		var nodes v1.NodeList
		check.OK(json.Unmarshal([]byte(out), &nodes))
		n := 0
		for i := range nodes.Items {
			if nodeReady(&nodes.Items[i]) {
				n++
			}
		}
		return check.That(n == 30, "%d are Ready", n)
	})
	b.apply(t, deployment("web", 90, ""))
	b.apply(t, deployment("crash", 3, `, sim.troupe.dev/crash-loop: "true", sim.troupe.dev/run-for: 1s`))
	b.afterwards(t, "delete", "deployment", "web", "crash", "--ignore-not-found")
	b.kubectlDo(t, "rollout", "status", "deployment/web", "--timeout=60s")
	w := b.witness(t)
	eventually(t, "all are seen", func() error {
		n := w.ready("web-")
		return check.That(n == 90, "%d pods are", n)
	})
	crashes := w.restarts("crash-")

	killed := time.Now()
	check.Fatal(t, victim.Signal(syscall.SIGKILL))
	eventually(t, "the others take over", shared(map[string]int{"a": 15, "b": 15}))
	if took := time.Since(killed); took > 3*lease { // a busy machine may take its time
		t.Errorf("they took over after %v, want about %v", took, lease)
	} else {
		t.Logf("they took over after %v", took)
	}
	awaitRenewed(t, w, "three-", time.Now())

	// A pod on a node that has changed hands can be deleted, and is replaced.
	var name string
	w.mu.Lock()
	for pod, p := range w.pods {
		if p.Spec.NodeName == "three-00029" || p.Spec.NodeName == "three-00028" {
			if strings.HasPrefix(pod, "web-") {
				name = pod
			}
		}
	}
	w.mu.Unlock()
	if name != "" {
		b.kubectlDo(t, "delete", "pod", name, "--wait")
		b.kubectlDo(t, "rollout", "status", "deployment/web", "--timeout=60s")
	}

	// One ends as it should: its nodes change hands at once.
	ended := time.Now()
	second.end()
	eventually(t, "the last one has all", shared(map[string]int{"a": 30}))
	if took := time.Since(ended); took > 2*lease {
		t.Errorf("a process that was ended gave its nodes away after %v", took)
	} else {
		t.Logf("from TERM until the nodes were taken: %v", took)
	}
	process("d")
	eventually(t, "who joins gets its part", shared(map[string]int{"a": 15, "d": 15}))
	awaitRenewed(t, w, "three-", time.Now())
	if now := w.restarts("crash-"); now < crashes {
		t.Errorf("restart counts fell from %d to %d", crashes, now)
	}
	w.check(t, 10400*time.Millisecond+lease+5*time.Second)
	check.Count(t, w.ready("web-"), 90, "%d pods are Ready")
	sum := first.end()
	t.Logf("the first process stopped its nodes %v times", sum["fenced"])
	if sum["crashes"] != 0.0 {
		t.Errorf("the summary is %v", sum)
	}
}

// awaitRenewed waits until each node's lease was renewed after a time.
func awaitRenewed(t *testing.T, w *witness, prefix string, after time.Time) {
	t.Helper()
	eventually(t, "every lease is renewed", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for node, at := range w.renewed {
			if strings.HasPrefix(node, prefix) && at.Before(after) {
				return fmt.Errorf("that of %s is not since %v", node, time.Since(at))
			}
		}
		return nil
	})
}

// TestRefusedFlags: what can't be is one clear line and exit code 1, before any work.
//
//tier:served
func TestRefusedFlags(t *testing.T) {
	b := theBed(t)
	b.removed(t, "refuse")
	b.kubectlDo(t, "create", "serviceaccount", "nobody")
	nobody := check.Value(b.serviceAccount(t.Context(), "default", "nobody"))(t)
	b.apply(t, "apiVersion: v1\nkind: Node\nmetadata: {name: real-00001}\n")
	b.afterwards(t, "delete", "node", "real-00001")
	running := b.sim(t, "--nodes", "2", "--name", "refuse", "--node-prefix", "refuse-", "--json", "--identity", "taken")
	eventually(t, "it runs", func() error {
		n := len(b.holders(t, "refuse"))
		return check.That(n == 1, "%d processes hold its slots", n)
	})
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"another number of nodes", []string{"--kubeconfig", b.account, "--nodes", "3", "--name", "refuse", "--node-prefix", "refuse-"}, []string{"--nodes=2", "--nodes=3", "troupe-sim/refuse"}},
		{"a node of somebody else", []string{"--kubeconfig", b.account, "--nodes", "3", "--name", "other", "--node-prefix", "real-"}, []string{"real-00001", "--node-prefix"}},
		{"no rights", []string{"--kubeconfig", nobody, "--nodes", "3"}, []string{"forbidden", "leases"}},
		{"an identity that is taken", []string{"--kubeconfig", b.account, "--nodes", "2", "--name", "refuse", "--node-prefix", "refuse-", "--identity", "taken", "--lease-duration", "4s"}, []string{"process taken", "--identity"}},
		{"no such namespace", []string{"--kubeconfig", b.admin, "--nodes", "3", "--namespace", "nowhere"}, []string{`namespaces "nowhere" not found`}},
		{"no nodes", []string{"--kubeconfig", b.account}, []string{"--nodes"}},
		{"too long a lease", []string{"--kubeconfig", b.account, "--nodes", "3", "--lease-duration", "1m"}, []string{"--lease-duration"}},
		{"no such file", []string{"--kubeconfig", "/nowhere", "--nodes", "3"}, []string{"/nowhere"}},
		{"flags of a virtual run", []string{"--kubeconfig", b.account, "--nodes", "3", "--pods-per-node", "3"}, []string{"--pods-per-node"}},
		{"in a pod and not", []string{"--kubeconfig", b.account, "--in-cluster", "--nodes", "3"}, []string{"--in-cluster"}},
		{"in no pod", []string{"--in-cluster", "--nodes", "3"}, []string{"KUBERNETES_SERVICE_HOST"}},
		{"a bad taint", []string{"--kubeconfig", b.account, "--nodes", "3", "--node-taints", "a=b:Never"}, []string{"--node-taints", "Never"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), b.binary, append([]string{"sim"}, c.args...)...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 {
				t.Fatalf("it ended with %v:\n%s", err, out)
			}
			var said []string
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "troupe: ") {
					said = append(said, line)
				}
			}
			if len(said) != 1 {
				t.Fatalf("want one line that says why:\n%s", out)
			}
			for _, want := range c.want {
				check.Has(t, said[0], want, "%q does not say %q", said[0], want)
			}
		})
	}
	check.Error(t, running.Err())
}
