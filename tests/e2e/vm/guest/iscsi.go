package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// The target is tgtd, in this machine. It has two targets: one that is open, with two LUNs, and one that wants to know
// who comes.
const (
	iscsiDir    = "/run/iscsi"
	iscsiPortal = "127.0.0.1:3260"
	openTarget  = "iqn.2003-01.org.example:open"
	chapTarget  = "iqn.2003-01.org.example:chap"
	chapUser    = "someone"
	chapWord    = "a-word-of-16-let"
)

// target is a running tgtd, and the iscsid of the initiator.
type target struct{ server, initiator *exec.Cmd }

// startTarget serves files as disks.
func startTarget(ctx context.Context) (_ *target, err error) {
	defer check.Return(&err)
	t := &target{server: exec.Command("tgtd", "-f", "--iscsi", "portal="+iscsiPortal), initiator: exec.Command("iscsid", "-f")}
	for _, dir := range []string{iscsiDir, "/run/lock/iscsi"} {
		check.OK(os.MkdirAll(dir, 0o755))
	}
	for _, c := range []*exec.Cmd{t.server, t.initiator} {
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		check.OK(c.Start())
	}
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			err = errors.Join(err, t.end())
		}
	}()
	check.OK(await(ctx, "tgtd answers", func() error { return tgtadm("--op show --mode target") }))
	const size = 32 << 20
	for i, disk := range []string{"one", "two", "three"} {
		file := filepath.Join(iscsiDir, disk)
		check.OK(errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size)))
		tid, iqn, lun := 1, openTarget, i+1
		if disk == "three" {
			tid, iqn, lun = 2, chapTarget, 1
		}
		if lun == 1 {
			check.OK(tgtadm(fmt.Sprintf("--op new --mode target --tid %d -T %s", tid, iqn)))
			check.OK(tgtadm(fmt.Sprintf("--op bind --mode target --tid %d -I ALL", tid)))
		}
		check.OK(tgtadm(fmt.Sprintf("--op new --mode logicalunit --tid %d --lun %d -b %s", tid, lun, file)))
	}
	return t, errors.Join(tgtadm("--op new --mode account --user "+chapUser+" --password "+chapWord),
		tgtadm("--op bind --mode account --tid 2 --user "+chapUser))
}

func tgtadm(args string) error {
	out, err := exec.Command("tgtadm", append([]string{"--lld", "iscsi"}, strings.Fields(args)...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tgtadm %s: %w: %s", args, err, out)
	}
	return nil
}

// end ends both. Nobody may have a session.
func (t *target) end() error {
	var err error
	for _, c := range []*exec.Cmd{t.initiator, t.server} {
		err = errors.Join(err, c.Process.Signal(unix.SIGCONT), c.Process.Kill())
		c.Wait() //nolint:errcheck // it was killed
	}
	return errors.Join(err, os.RemoveAll(iscsiDir))
}

// iscsiPod writes to a disk of the open target, and reads what is there.
func iscsiPod(name, lun, args string) string {
	return node.Manifest(name, 1, `
  containers:
  - name: main
    image: `+lab.WorkImage+`
    args: [`+args+`]
    volumeMounts: [{name: files, mountPath: /files}]
  volumes: [{name: files, iscsi: {targetPortal: 127.0.0.1, iqn: "`+openTarget+`", lun: `+lun+`, fsType: ext4}}]`)
}

// chapPod has the disk of the target that wants to know who comes.
func chapPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: new(false),
		SecurityContext: &v1.PodSecurityContext{FSGroup: new(int64(4321))},
		Containers: []v1.Container{{
			Name: "main", Image: lab.WorkImage, Args: strings.Fields("write /files/chap known then cat /files/chap then sleep"),
			VolumeMounts: []v1.VolumeMount{{Name: "files", MountPath: "/files"}},
		}},
		Volumes: []v1.Volume{{Name: "files", VolumeSource: v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{
			TargetPortal: iscsiPortal, IQN: chapTarget, Lun: 1, SessionCHAPAuth: true, SecretRef: &v1.LocalObjectReference{Name: name},
		}}}},
	}}
}

// sessions are the targets that this machine has sessions with, one for each, sorted.
func sessions() ([]string, error) {
	files, err := filepath.Glob("/sys/class/iscsi_session/session*/targetname")
	var out []string
	for _, file := range files {
		text, e := os.ReadFile(file)
		err = errors.Join(err, e)
		out = append(out, filepath.Base(filepath.Dir(file))+" "+strings.TrimSpace(string(text)))
	}
	slices.Sort(out)
	return out, err
}

// wantSessions waits until there are sessions with these targets alone, and gives them with their numbers.
func wantSessions(ctx context.Context, targets ...string) (all []string, err error) {
	return all, await(ctx, fmt.Sprintf("there are sessions with %v", targets), func() error {
		all, err = sessions()
		var of []string
		for _, s := range all {
			_, name, _ := strings.Cut(s, " ")
			of = append(of, name)
		}
		slices.Sort(of)
		if err == nil && !slices.Equal(of, targets) {
			err = fmt.Errorf("there are %v", all)
		}
		return err
	})
}

// iscsi has pods of a cluster use disks of a target, and the target fall silent.
func (h *host) iscsi(ctx context.Context) error {
	return h.inCluster(ctx, func(ctx context.Context, api kubernetes.Interface) error {
		t, err := startTarget(ctx)
		if err != nil {
			return err
		}
		err = h.useTarget(ctx, api, t)
		if err != nil {
			return errors.Join(err, t.end())
		}
		return t.end()
	})
}

func (h *host) useTarget(ctx context.Context, api kubernetes.Interface, t *target) (err error) {
	defer check.Return(&err)
	for _, p := range [][2]string{
		{"writes", "append, /files/it, first, then, append, /files/done, all, then, sleep"},
		{"reads", "await, /files/done, then, cat, /files/it, then, sleep"},
	} {
		check.OK(h.agent.Write(p[0]+".yaml", iscsiPod(p[0], "1", p[1])))
	}
	const chap = "chap"
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: chap}, Type: "kubernetes.io/iscsi-chap", StringData: map[string]string{
		"node.session.auth.username": chapUser, "node.session.auth.password": chapWord,
	}}
	check.Must(api.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, secret, metav1.CreateOptions{}))
	check.Must(api.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, chapPod(chap), metav1.CreateOptions{}))
	before := map[string]node.Pod{}
	for _, name := range []string{"writes", "reads", chap} {
		before[name] = check.Must(h.awaitPod(ctx, name, "runs", node.Pod.Running))
	}
	check.OK(h.saysOf(ctx, before["reads"], "first"))
	check.OK(h.saysOf(ctx, before[chap], "known"))
	had := check.Must(wantSessions(ctx, chapTarget, openTarget))
	check.OK(errors.Join(h.agent.Kill(ctx), h.agent.Start(ctx)))
	for _, name := range []string{"writes", "reads", chap} {
		check.OK(h.runsOn(ctx, before[name]))
	}
	has, err := wantSessions(ctx, chapTarget, openTarget)
	if err != nil || !slices.Equal(had, has) {
		return fmt.Errorf("there were sessions %v, and after kill -9 of the agent %v: %w", had, has, err)
	}
	if err := h.silentTarget(ctx, api, t, chap); err != nil {
		return fmt.Errorf("while the target is silent: %w", err)
	}
	check.OK(h.goes(ctx, "writes"))
	if _, err := wantSessions(ctx, openTarget); err != nil {
		return fmt.Errorf("with one pod left: %w", err)
	}
	check.OK(h.goes(ctx, "reads"))
	check.Must(wantSessions(ctx))
	return h.noDisks()
}

// saysOf waits until the log of a pod has a text.
func (h *host) saysOf(ctx context.Context, p node.Pod, want string) error {
	return await(ctx, "pod "+p.Name+" says "+want, func() error {
		text, err := os.ReadFile(filepath.Join(h.agent.Logs(), "default_"+p.Name+"_"+p.UID, "main", "0.log"))
		if err == nil && !strings.Contains(string(text), want) {
			err = fmt.Errorf("its log is %q", text)
		}
		return err
	})
}

// silentTarget stops the target, and looks at what that costs: pod chap goes, and another wants to begin.
func (h *host) silentTarget(ctx context.Context, api kubernetes.Interface, t *target, chap string) (err error) {
	defer check.Return(&err)
	check.OK(t.server.Process.Signal(unix.SIGSTOP))
	defer t.server.Process.Signal(unix.SIGCONT) // it may have ended
	check.OK(h.agent.Write("waits.yaml", iscsiPod("waits", "2", "sleep")))
	begun := time.Now()
	check.OK(h.comeAndGo(ctx, "besides"))
	check.Must(h.awaitPod(ctx, "waits", "says what it waits for", func(p node.Pod) error {
		w := p.Container("main")
		return check.That(w.State == "waiting" && strings.Contains(w.Message, openTarget), "it does not say what it waits for")
	}))
	fmt.Printf("--- with a silent iSCSI target a pod had come and gone, and another said what it waits for, after %v\n", time.Since(begun))
	begun = time.Now()
	err = errors.Join(h.agent.Remove("waits.yaml"), deletePods(ctx, api, chap), h.gone(ctx, "waits"))
	fmt.Printf("--- with a silent iSCSI target a pod that had its disk, and one that waited for it, were gone after %v\n", time.Since(begun))
	return err
}

// noDisks is nil if nothing of a disk is left: mount, directory, device, record.
func (h *host) noDisks() error {
	points, err := mountPoints()
	for _, p := range points {
		if strings.Contains(p, "/kubernetes.io/iscsi/") {
			err = errors.Join(err, fmt.Errorf("%s is mounted", p))
		}
	}
	for _, pattern := range []string{
		filepath.Join(h.agent.Root(), "plugins/kubernetes.io/iscsi/*"), "/sys/block/sd*", "/etc/iscsi/nodes/*/*/*",
	} {
		left, globErr := filepath.Glob(pattern)
		if err = errors.Join(err, globErr); len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("there is %v", left))
		}
	}
	return err
}
