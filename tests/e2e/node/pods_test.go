package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestPods runs many pods on one node, each test its own. In the end all are taken away, and
// nothing may be left.
//
//tier:real
func TestPods(t *testing.T) {
	onEach(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		t.Run("all", func(t *testing.T) {
			for name, test := range map[string]func(*testing.T, *bed){
				"examples":          testExamples,
				"edit":              testEdit,
				"remove":            testRemove,
				"always":            testAlways,
				"onfailure":         testOnFailure,
				"never":             testNever,
				"order":             testStory("order"),
				"init-fails":        testInitFails,
				"prestop":           testStory("prestop"),
				"prestop-goes-on":   testStory("prestop-goes-on"),
				"grace":             testGrace,
				"emptydir":          testEmptyDir,
				"hostpath":          testHostPath,
				"inside":            testInside,
				"container-killed":  testContainerKilled,
				"sandbox-killed":    testSandboxKilled,
				"image-unavailable": testImageUnavailable,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, b)
				})
			}
		})
		b.noneDoubled(t)
		files := check.Value(filepath.Glob(filepath.Join(b.Manifests(), "*")))(t)
		for _, f := range files {
			check.Fatal(t, os.Remove(f))
		}
		b.await(t, "nothing is left of any pod", func() error {
			check.OK(b.look(t).Empty())
			left := Leftovers(b.Daemon, b.lab)
			return check.That(len(left) == 0, "left: %s", strings.Join(left, "; "))
		})
	})
}

func testExamples(t *testing.T, b *bed) {
	repository := check.Value(lab.Repository())(t)
	for _, name := range []string{"web", "crash", "init-and-sidecar"} {
		text := check.Value(os.ReadFile(filepath.Join(repository, "docs/examples", name+".yaml")))(t)
		b.apply(t, name+".yaml", string(text))
	}
	serves(t, b, b.awaitRunning(t, "web").IP, "hello from")
	trio := b.awaitRunning(t, "init-and-sidecar")
	if c := trio.Container("prepare"); c.State != "terminated" || c.Reason != "Completed" || c.ExitCode == nil || *c.ExitCode != 0 {
		t.Errorf("the init container is %+v; want it completed", c)
	}
	serves(t, b, trio.IP, "written by the init container\nand by the sidecar\n")
	b.awaitPod(t, "crash", "waits in CrashLoopBackOff", func(p Pod) error {
		c := p.Container("crash")
		return check.That(c.State == "waiting" && c.Reason == "CrashLoopBackOff" && c.Restarts >= 1, "it does not")
	})
}

func serves(t *testing.T, b *bed, ip, want string) {
	t.Helper()
	b.await(t, "a pod serves", func() error { return lab.Serves(t.Context(), "http://"+ip+":8080/", want) })
}

var editManifest = Manifest("edit", 10, `
  containers:
  - name: main
    image: $WORK
    args: [append, /f/edit, $NAME begins, then, trap, 1s, then, append, /f/edit, $NAME ends]
    volumeMounts: [{name: f, mountPath: /f}]`)

// testEdit shows that an edited manifest makes a new pod, which begins after the old one ended.
func testEdit(t *testing.T, b *bed) {
	b.apply(t, "edit.yaml", editManifest, "$NAME", "old")
	old := b.awaitRunning(t, "edit")
	b.awaitLines(t, "edit", 1)
	b.apply(t, "edit.yaml", editManifest, "$NAME", "new")
	got := b.awaitLines(t, "edit", 3)
	if want := "old begins,old ends,new begins"; strings.Join(got, ",") != want {
		t.Errorf("the file says %q; want %s", got, want)
	}
	fresh := b.awaitRunning(t, "edit")
	if fresh.UID == old.UID {
		t.Error("the edited pod has the UID of the old one")
	}
	b.await(t, "one sandbox is left", func() error {
		n := len(b.look(t).Of("edit").Sandboxes)
		return check.That(n == 1, "there are %d", n)
	})
	// A change that means nothing changes nothing.
	b.apply(t, "edit.yaml", "# a comment\n"+editManifest, "$NAME", "new")
	b.apply(t, "beside.yaml", plain("beside"))
	b.awaitRunning(t, "beside")
	if now := b.awaitRunning(t, "edit"); now.UID != fresh.UID || now.Container("main").ID != fresh.Container("main").ID {
		t.Errorf("a comment made a new pod: %+v, before %+v", now, fresh)
	}
}

// plain is a pod that does nothing.
func plain(name string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {
  "terminationGracePeriodSeconds": 2, "containers": [{"name": "main", "image": %q, "args": ["sleep"]}]}}`, name, lab.WorkImage)
}

func testRemove(t *testing.T, b *bed) {
	b.apply(t, "remove.yaml", Manifest("remove", 5, `
  containers:
  - {name: one, image: $WORK, args: [sleep], volumeMounts: [{name: e, mountPath: /e}, {name: m, mountPath: /m}]}
  - {name: two, image: $WORK, args: [print, two, then, sleep], volumeMounts: [{name: e, mountPath: /e}]}
  volumes: [{name: e, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}]`))
	pod := b.awaitRunning(t, "remove")
	b.remove(t, "remove.yaml")
	b.awaitGone(t, "remove", pod.UID)
}

func restarts(name, policy, steps string) string {
	return Manifest(name, 1, `
  restartPolicy: `+policy+`
  containers:
  - name: main
    image: $WORK
    args: [append, /f/`+name+`, started, then, `+steps+`]
    volumeMounts: [{name: f, mountPath: /f}]`)
}

func testAlways(t *testing.T, b *bed) {
	b.apply(t, "always.yaml", restarts("always", "Always", `exit, "0"`))
	b.awaitLines(t, "always", 2)
	b.awaitPod(t, "always", "waits in CrashLoopBackOff", func(p Pod) error {
		c := p.Container("main")
		return check.That(c.State == "waiting" && c.Reason == "CrashLoopBackOff", "it does not")
	})
}

func testOnFailure(t *testing.T, b *bed) {
	b.apply(t, "good.yaml", restarts("good", "OnFailure", `exit, "0"`))
	b.apply(t, "fails.yaml", restarts("fails", "OnFailure", `turns, /f/turns, "2"`))
	for _, name := range []string{"good", "fails"} {
		pod := b.awaitPod(t, name, "succeeds", phase("Succeeded"))
		if c := pod.Container("main"); c.State != "terminated" || c.Reason != "Completed" || c.ExitCode == nil || *c.ExitCode != 0 {
			t.Errorf("the container of %s is %+v; want it completed", name, c)
		}
	}
	check.Count(t, len(b.lines("good")), 1, "a container that succeeded was started %d times")
	check.Count(t, len(b.lines("fails")), 2, "a container that failed once was started %d times")
}

func phase(want string) func(Pod) error {
	return func(p Pod) error { return check.That(p.Phase == want, "it is %s, not %s", p.Phase, want) }
}

func testNever(t *testing.T, b *bed) {
	b.apply(t, "never.yaml", restarts("never", "Never", `exit, "3"`))
	pod := b.awaitPod(t, "never", "fails", phase("Failed"))
	if c := pod.Container("main"); c.State != "terminated" || c.Reason != "Error" || c.ExitCode == nil || *c.ExitCode != 3 || c.Restarts != 0 {
		t.Errorf("the container is %+v; want it terminated with 3", c)
	}
	check.Count(t, len(b.lines("never")), 1, "it was started %d times")
}

// stories are pods that are removed when their programs have written some lines, and all lines that there are in the end.
var stories = map[string]struct {
	grace int
	spec  string
	lines int
	want  string
}{
	// Init containers run one after the other, a sidecar before the main container and until after it. A sidecar
	// counts as started when it runs; its first line may come after the next one's.
	"order": {20, `
  initContainers:
  - {name: one, image: $WORK, args: [append, /f/order, one, then, sleep, 300ms, then, append, /f/order, one ends], volumeMounts: [{name: f, mountPath: /f}]}
  - {name: side, image: $WORK, restartPolicy: Always, args: [append, /f/order, side, then, trap, then, append, /f/order, side ends], volumeMounts: [{name: f, mountPath: /f}]}
  - {name: two, image: $WORK, args: [append, /f/order, two, then, sleep, 300ms, then, append, /f/order, two ends], volumeMounts: [{name: f, mountPath: /f}]}
  containers:
  - {name: main, image: $WORK, args: [append, /f/order, main, then, trap, 1s, then, append, /f/order, main ends], volumeMounts: [{name: f, mountPath: /f}]}`, 6, `one,one ends,(side,two|two,side),two ends,main,main ends,side ends`},
	// The hook runs first, then SIGTERM comes, and the program may finish.
	"prestop": {15, `
  containers:
  - name: main
    image: $WORK
    args: [append, /f/prestop, started, then, trap, 500ms, then, append, /f/prestop, finished]
    lifecycle: {preStop: {exec: {command: [/work, append, /f/prestop, hook, then, sleep, 500ms, then, append, /f/prestop, hook ends]}}}
    volumeMounts: [{name: f, mountPath: /f}]`, 1, `started,hook,hook ends,finished`},
	// A hook which does not end in time goes on when SIGTERM comes, until the program that does not listen is killed.
	// It writes ten lines a second. Two seconds are left after SIGTERM, which are many lines even on a machine that
	// has too much to do.
	"prestop-goes-on": {8, `
  containers:
  - name: main
    image: $WORK
    args: [append, /f/prestop-goes-on, started, then, trap, 0s, then, append, /f/prestop-goes-on, SIGTERM, then, ignore]
    lifecycle: {preStop: {exec: {command: [/work, tick, /f/prestop-goes-on, 100ms, hook]}}}
    volumeMounts: [{name: f, mountPath: /f}]`, 1, `started(,hook)+,SIGTERM(,hook){5,}`},
}

func testStory(name string) func(*testing.T, *bed) {
	return func(t *testing.T, b *bed) {
		s := stories[name]
		b.apply(t, name+".yaml", Manifest(name, s.grace, s.spec))
		pod := b.awaitRunning(t, name)
		b.awaitLines(t, name, s.lines)
		b.remove(t, name+".yaml")
		b.awaitGone(t, name, pod.UID)
		lines := b.lines(name)
		if got := strings.Join(lines, ","); !regexp.MustCompile("^" + s.want + "$").MatchString(got) {
			t.Errorf("in order: %s; want %s", got, s.want)
		}
		if after := b.lines(name); len(after) != len(lines) {
			t.Errorf("something outlives its container: %d lines more", len(after)-len(lines))
		}
	}
}

func testInitFails(t *testing.T, b *bed) {
	b.apply(t, "init.yaml", Manifest("init-fails", 1, `
  initContainers:
  - {name: init, image: $WORK, args: [append, /f/initfails, init, then, turns, /f/initturns, "2"], volumeMounts: [{name: f, mountPath: /f}]}
  containers:
  - {name: main, image: $WORK, args: [append, /f/initfails, main, then, sleep], volumeMounts: [{name: f, mountPath: /f}]}`))
	pod := b.awaitRunning(t, "init-fails")
	check.Equal(t, strings.Join(b.awaitLines(t, "initfails", 3), ","), "init,init,main", "in order")
	if c := pod.Container("init"); c.Restarts != 1 || c.State != "terminated" {
		t.Errorf("the init container is %+v; want it restarted once and done", c)
	}
}

// testGrace shows that a program that does not listen gets all its grace period, and no more than
// it takes to kill it then.
func testGrace(t *testing.T, b *bed) {
	b.apply(t, "grace.yaml", Manifest("grace", 4, `
  containers: [{name: main, image: $WORK, args: [append, /f/grace, started, then, ignore], volumeMounts: [{name: f, mountPath: /f}]}]`))
	pod := b.awaitRunning(t, "grace")
	b.awaitLines(t, "grace", 1)
	id := b.look(t).Of("grace").Running()[0].Id
	pid := check.Value(ContainerPID(t.Context(), b.lab, id))(t)
	const grace, slack = 4 * time.Second, 30 * time.Second // slack is for a busy machine
	begin := time.Now()
	b.remove(t, "grace.yaml")
	b.await(t, "the program is killed", func() error {
		err := syscall.Kill(pid, 0)
		return check.That(err != nil, "it is there")
	})
	if took := time.Since(begin); took < grace {
		t.Errorf("killed after %s, before its grace of %s had ended", took, grace)
	} else if took > grace+slack {
		t.Errorf("killed after %s, want soon after its grace of %s", took, grace)
	}
	b.awaitGone(t, "grace", pod.UID)
}

// testEmptyDir shows that an emptyDir is shared and outlives a restart of a container.
func testEmptyDir(t *testing.T, b *bed) {
	b.apply(t, "emptydir.yaml", Manifest("emptydir", 1, `
  containers:
  - {name: writer, image: $WORK, args: [turns, /e/turns, "2", then, touch, /e/done, then, sleep], volumeMounts: [{name: e, mountPath: /e}]}
  - {name: reader, image: $WORK, args: [await, /other/done, then, append, /f/emptydir, seen, then, sleep], volumeMounts: [{name: e, mountPath: /other}, {name: f, mountPath: /f}]}
  volumes: [{name: e, emptyDir: {}}, {name: f, hostPath: {path: $FILES}}]`))
	b.awaitLines(t, "emptydir", 1)
	pod := b.awaitRunning(t, "emptydir")
	check.Count(t, pod.Container("writer").Restarts, 1, "the writer has %d restarts")
	b.remove(t, "emptydir.yaml")
	b.awaitGone(t, "emptydir", pod.UID)
}

func testHostPath(t *testing.T, b *bed) {
	check.Fatal(t, os.WriteFile(filepath.Join(b.dir, "afile"), []byte("of the host\n"), 0o644))
	b.apply(t, "hostpath.yaml", Manifest("hostpath", 1, `
  containers:
  - name: main
    image: $WORK
    args: [cat, /afile, then, append, /made/file, x, then, append, /madefile, line, then, append, /f/hostpath, ok, then, sleep]
    volumeMounts:
    - {name: dir, mountPath: /f}
    - {name: file, mountPath: /afile, readOnly: true}
    - {name: made, mountPath: /made}
    - {name: madefile, mountPath: /madefile}
  volumes:
  - {name: dir, hostPath: {path: $FILES, type: Directory}}
  - {name: file, hostPath: {path: $FILES/afile, type: File}}
  - {name: made, hostPath: {path: $FILES/made/deep, type: DirectoryOrCreate}}
  - {name: madefile, hostPath: {path: $FILES/madefile, type: FileOrCreate}}`))
	b.awaitLines(t, "hostpath", 1)
	pod := b.awaitRunning(t, "hostpath")
	b.await(t, "its log has what the file reads", func() error { // the runtime writes it a moment later
		out := b.output(t, pod, "main")
		return check.That(out == "of the host\n", "it is %q", out)
	})
	for _, file := range []string{"made/deep/file", "madefile"} {
		check.Equal(t, len(b.lines(file)), 1, "%s is not there", file)
	}
	// A pod whose directory is missing waits, says why, and starts as soon as it is there.
	b.apply(t, "missing.yaml", Manifest("missing", 1, `
  containers: [{name: main, image: $WORK, args: [touch, /m/file, then, sleep], volumeMounts: [{name: m, mountPath: /m}]}]
  volumes: [{name: m, hostPath: {path: $FILES/missing, type: Directory}}]`))
	b.awaitPod(t, "missing", "waits for its directory", func(p Pod) error {
		c := p.Container("main")
		return check.That(c.State == "waiting" && strings.Contains(fmt.Sprintf("%+v", p), "/missing"), "it says nothing of it")
	})
	check.Fails(t, check.Err(os.Stat(filepath.Join(b.dir, "missing"))), "a directory of type Directory was made")
	check.Fatal(t, os.Mkdir(filepath.Join(b.dir, "missing"), 0o755))
	b.awaitRunning(t, "missing")
	// Removal leaves the host's files alone.
	b.remove(t, "hostpath.yaml")
	b.awaitGone(t, "hostpath", pod.UID)
	if len(b.lines("made/deep/file")) != 1 || len(b.lines("afile")) != 1 {
		t.Error("files of the host went with the pod")
	}
}

func testInside(t *testing.T, b *bed) {
	b.apply(t, "inside.yaml", `
apiVersion: v1
kind: Pod
metadata:
  name: inside
  namespace: some
  labels: {app: inside}
  annotations: {note: hello}
spec:
  hostname: given
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: $WORK
    command: [/work, print, "$(GREETING) $(MISSING) $$(GREETING)", then]
    args: [env, GREETING, BOTH, NAME, NAMESPACE, UID, IP, NODE, LABEL, NOTE, MEMORY, then, id, then, sleep]
    workingDir: /tmp
    securityContext: {runAsUser: 1000, runAsGroup: 1000}
    resources: {limits: {memory: 64Mi}}
    env:
    - {name: GREETING, value: hello}
    - {name: BOTH, value: "$(GREETING) twice"}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
`)
	pod := b.awaitRunning(t, "inside")
	want := fmt.Sprintf("hello $(MISSING) $(GREETING)\nGREETING=hello\nBOTH=hello twice\nNAME=%s\nNAMESPACE=some\nUID=%s\nIP=%s\n"+
		"NODE=%s\nLABEL=inside\nNOTE=hello\nMEMORY=%d\nuid=1000 gid=1000 groups=[1000] host=given cwd=/tmp\n",
		pod.Name, pod.UID, pod.IP, NodeName, 64<<20)
	b.await(t, "the program has printed all", func() error {
		got := b.output(t, pod, "main")
		return check.That(got == want, "it printed %q; want %q", got, want)
	})
}

func testContainerKilled(t *testing.T, b *bed) {
	b.apply(t, "killed.yaml", restarts("killed", "Always", "sleep"))
	before := b.awaitRunning(t, "killed")
	b.awaitLines(t, "killed", 1)
	sandbox := b.look(t).Of("killed").Ready()[0].Id
	b.killOne(t, "killed")
	b.awaitLines(t, "killed", 2)
	after := b.awaitPod(t, "killed", "runs again", func(p Pod) error {
		if p.Container("main").Restarts != 1 {
			return errors.New("it was not restarted")
		}
		return p.Running()
	})
	if after.Container("main").ID == before.Container("main").ID {
		t.Error("the container is the one that was killed")
	}
	if now := b.look(t).Of("killed").Ready(); len(now) != 1 || now[0].Id != sandbox {
		t.Errorf("a container's death cost the sandbox: %v", now)
	}
}

func testSandboxKilled(t *testing.T, b *bed) {
	b.apply(t, "nosandbox.yaml", restarts("nosandbox", "Always", "sleep"))
	before := b.awaitRunning(t, "nosandbox")
	b.awaitLines(t, "nosandbox", 1)
	old := b.look(t).Of("nosandbox").Ready()[0].Id
	pid := check.Value(SandboxPID(t.Context(), b.lab, old))(t)
	check.Fatal(t, syscall.Kill(pid, syscall.SIGKILL))
	b.awaitLines(t, "nosandbox", 2)
	b.await(t, "the pod has one living sandbox, a new one", func() error {
		ready := b.look(t).Of("nosandbox").Ready()
		return check.That(len(ready) == 1 && ready[0].Id != old, "it has %v", ready)
	})
	after := b.awaitPod(t, "nosandbox", "runs in it", func(p Pod) error {
		if p.Container("main").ID == before.Container("main").ID {
			return errors.New("its container is the old one")
		}
		return p.Running()
	})
	check.Equal(t, after.UID, before.UID, "the pod is another one")
}

func testImageUnavailable(t *testing.T, b *bed) {
	b.apply(t, "noimage.yaml", strings.ReplaceAll(plain("noimage"), lab.WorkImage, "troupe.local/demo/missing:v1"))
	b.awaitPod(t, "noimage", "says that it cannot pull", func(p Pod) error {
		c := p.Container("main")
		if c.State != "waiting" || c.Reason != "ErrImagePull" && c.Reason != "ImagePullBackOff" || !strings.Contains(c.Message, "missing:v1") {
			return errors.New("it does not")
		}
		return nil
	})
	pod := b.awaitPod(t, "noimage", "backs off", func(p Pod) error {
		return check.That(p.Container("main").Reason == "ImagePullBackOff", "it does not")
	})
	b.remove(t, "noimage.yaml")
	b.awaitGone(t, "noimage", pod.UID)
}
