package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// shutdownSettings is more than logind waits for by itself: five seconds.
const shutdownSettings = "shutdownGracePeriod: 120s\nshutdownGracePeriodCriticalPods: 60s\n"

// maxDelay is for how long logind has to wait then: five seconds more, for statuses.
const maxDelay = 125 * time.Second

// diary is where pods note what happens to them, and in which order.
const diary = "/run/diary"

// noting is a pod that notes the beginning and the end of its preStop hook, and its end.
func noting(name, class string) *v1.Pod {
	note := func(what string) []string { return []string{"append", "/diary/notes", name + " " + what} }
	hook := slices.Concat([]string{"/work"}, note("hook"), []string{"then", "sleep", "2s", "then"}, note("hook ended"))
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: node.NodeName, PriorityClassName: class, TerminationGracePeriodSeconds: new(int64(60)),
		Containers: []v1.Container{{
			Name: "main", Image: lab.WorkImage, Args: append([]string{"trap", "1s", "then"}, note("ended")...),
			Lifecycle:    &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: hook}}},
			VolumeMounts: []v1.VolumeMount{{Name: "diary", MountPath: "/diary"}},
		}},
		Volumes: []v1.Volume{{Name: "diary", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: diary}}}},
	}}
}

// notes is what is in the diary then.
var notes = []string{
	"ordinary hook", "ordinary hook ended", "ordinary ended", "critical hook", "critical hook ended", "critical ended",
}

// shutdown shuts the machine down, and returns when systemd ends this process.
func (h *host) shutdown(ctx context.Context) error {
	if err := os.Mkdir(diary, 0o755); err != nil {
		return err
	}
	return h.inCluster(ctx, h.powerOff)
}

func (h *host) powerOff(ctx context.Context, api kubernetes.Interface) (err error) {
	defer check.Return(&err)
	pods := api.CoreV1().Pods(metav1.NamespaceDefault)
	for name, class := range map[string]string{"ordinary": "", "critical": "system-node-critical"} {
		check.Must(pods.Create(ctx, noting(name, class), metav1.CreateOptions{}))
	}
	for _, name := range []string{"ordinary", "critical"} {
		check.OK(await(ctx, "pod "+name+" runs", func() error {
			p, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err == nil && p.Status.Phase != v1.PodRunning {
				err = fmt.Errorf("it is %s", p.Status.Phase)
			}
			return err
		}))
	}
	check.OK(await(ctx, "the agent has its lock", locked))
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	begin := time.Now()
	if out, err := exec.CommandContext(ctx, "systemctl", "poweroff").CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl poweroff: %w: %s", err, out)
	}
	select {
	case <-terminated:
		h.goingDown = true
	case <-time.After(patience):
		return fmt.Errorf("the machine did not go down within %s: %s", patience, read())
	}
	took := time.Since(begin)
	fmt.Printf("systemd ended the checks %s after systemctl poweroff\n", took)
	var wrong error
	if got := strings.Split(strings.TrimSpace(read()), "\n"); !slices.Equal(got, notes) {
		wrong = fmt.Errorf("when systemd went on, this had happened: %q; want %q", got, notes)
	}
	if took >= maxDelay {
		wrong = errors.Join(wrong, fmt.Errorf("systemd went on after %s, when logind waits no longer: the lock was not given back", took))
	}
	for _, name := range []string{"ordinary", "critical"} {
		p, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (p.Status.Phase != v1.PodFailed || p.Status.Reason != "Terminated") {
			err = fmt.Errorf("pod %s is %s, %q; want it Failed, Terminated", name, p.Status.Phase, p.Status.Reason)
		}
		wrong = errors.Join(wrong, err)
	}
	n, err := api.CoreV1().Nodes().Get(ctx, node.NodeName, metav1.GetOptions{})
	if err != nil {
		return errors.Join(wrong, err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady && (c.Status != v1.ConditionFalse || c.Message != "node is shutting down") {
			wrong = errors.Join(wrong, fmt.Errorf("the node is ready: %s, %q", c.Status, c.Message))
		}
	}
	return wrong
}

func read() string {
	text, err := os.ReadFile(filepath.Join(diary, "notes"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// locked is nil if logind has a lock of the agent, and waits long enough for it.
func locked() (err error) {
	defer check.Return(&err)
	conn := check.Must(dbus.ConnectSystemBus())
	defer conn.Close()
	logind := conn.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	var locks []struct {
		What, Who, Why, Mode string
		UID, PID             uint32
	}
	check.OK(logind.Call("org.freedesktop.login1.Manager.ListInhibitors", 0).Store(&locks))
	held := false
	for _, l := range locks {
		held = held || l.What == "shutdown" && l.Who == "troupe" && l.Mode == "delay"
	}
	value := check.Must(logind.GetProperty("org.freedesktop.login1.Manager.InhibitDelayMaxUSec"))
	if want := uint64(maxDelay.Microseconds()); !held || value.Value() != want {
		return fmt.Errorf("logind has locks %+v, and waits for %v µs; want one of troupe, and %d", locks, value.Value(), want)
	}
	return nil
}
