package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

const selinuxfs = "/sys/fs/selinux"

func hasPolicy() bool {
	_, err := os.Stat(vm.PolicyPath)
	return err == nil
}

// loadPolicy loads the policy of this machine, if there is one, and has it enforced.
func loadPolicy() error {
	if !hasPolicy() {
		return nil
	}
	if err := unix.Mount("selinuxfs", selinuxfs, "selinuxfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", selinuxfs, err)
	}
	policy, err := os.ReadFile(vm.PolicyPath)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(selinuxfs, "load"), policy, 0); err != nil {
		return fmt.Errorf("load the policy: %w", err)
	}
	return os.WriteFile(filepath.Join(selinuxfs, "enforce"), []byte("1"), 0)
}

// labeledPod has the claim, and an empty directory.
func labeledPod(name, level, args string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)), AutomountServiceAccountToken: new(false),
		SecurityContext: &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: level}},
		Containers: []v1.Container{{
			Name: "main", Image: lab.WorkImage, Args: strings.Fields(args),
			VolumeMounts: []v1.VolumeMount{{Name: "files", MountPath: "/files"}, {Name: "own", MountPath: "/own"}},
		}},
		Volumes: []v1.Volume{
			{Name: "files", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "files"}}},
			{Name: "own", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		},
	}}
}

// claimDisk makes a volume of the open target that one pod at a time may use, and a claim that is bound to it.
func claimDisk(ctx context.Context, api kubernetes.Interface) error {
	const name = "files"
	once := []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("32Mi")}
	claims := api.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault)
	claim, err := claims.Create(ctx, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: once, VolumeName: name, StorageClassName: new(""), Resources: v1.VolumeResourceRequirements{Requests: size},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = api.CoreV1().PersistentVolumes().Create(ctx, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		AccessModes: once, Capacity: size, ClaimRef: &v1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: name, UID: claim.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{
			TargetPortal: iscsiPortal, IQN: openTarget, Lun: 1, FSType: "ext4",
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: once, Capacity: size}
	_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// selinux has pods of a cluster use a disk with labels.
func (h *host) selinux(ctx context.Context) error {
	return h.inCluster(ctx, func(ctx context.Context, api kubernetes.Interface) error {
		t, err := startTarget(ctx)
		if err != nil {
			return err
		}
		err = claimDisk(ctx, api)
		if err == nil {
			err = h.useLabels(ctx, api)
		}
		return errors.Join(err, t.end())
	})
}

func (h *host) useLabels(ctx context.Context, api kubernetes.Interface) error {
	all := api.CoreV1().Pods(metav1.NamespaceDefault)
	const args = "append /files/it first then append /own/it mine then cat /files/it then sleep"
	if _, err := all.Create(ctx, labeledPod("one", "s0:c1,c2", args), metav1.CreateOptions{}); err != nil {
		return err
	}
	one, err := h.awaitPod(ctx, "one", "runs", node.Pod.Running)
	if err != nil {
		return err
	}
	if err := h.saysOf(ctx, one, "first"); err != nil {
		return err
	}
	mounted, err := h.labeled(one, "s0:c1,c2")
	if err != nil {
		return err
	}
	had, err := sessions()
	if err == nil {
		err = errors.Join(h.agent.Kill(ctx), h.agent.Start(ctx))
	}
	if err != nil {
		return err
	}
	if err := h.runsOn(ctx, one); err != nil {
		return err
	}
	if _, err := all.Create(ctx, labeledPod("two", "s0:c3", strings.Replace(args, "first", "second", 1)), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := h.awaitPod(ctx, "two", "says what it waits for", func(p node.Pod) error {
		if w := p.Container("main"); w.State != "waiting" || !strings.Contains(w.Message, "conflicting SELinux labels of volume files: ") {
			return errors.New("it does not say what it waits for")
		}
		return nil
	}); err != nil {
		return err
	}
	has, err := sessions()
	after, labelErr := h.labeled(one, "s0:c1,c2")
	if err = errors.Join(err, labelErr); err != nil || !slices.Equal(had, has) || !slices.Equal(mounted, after) {
		return fmt.Errorf("there were sessions %v and mounts %q, and after kill -9 of the agent %v and %q: %w", had, mounted, has, after, err)
	}
	if err := deletePods(ctx, api, "one"); err != nil {
		return err
	}
	two, err := h.awaitPod(ctx, "two", "runs", node.Pod.Running)
	if err != nil {
		return err
	}
	if err := errors.Join(h.saysOf(ctx, two, "first"), h.saysOf(ctx, two, "second")); err != nil {
		return err
	}
	if _, err := h.labeled(two, "s0:c3"); err != nil {
		return err
	}
	if err := errors.Join(deletePods(ctx, api, "two"), h.gone(ctx, "two")); err != nil {
		return err
	}
	if _, err := wantSessions(ctx); err != nil {
		return err
	}
	return h.noDisks()
}

// labeled fails unless the disk is mounted with a level, the empty directory of a pod is relabeled, and processes of
// the pod have the level too. It gives the lines of the disk's mounts.
func (h *host) labeled(p node.Pod, level string) (lines []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	label := vm.FileContext + ":" + level
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "/kubernetes.io/iscsi/") || strings.Contains(line, "/kubernetes.io~iscsi/") {
			lines = append(lines, line)
			if !strings.Contains(line, `context="`+label+`"`) {
				err = errors.Join(err, fmt.Errorf("it is not mounted with label %s: %s", label, line))
			}
		}
	}
	if len(lines) != 2 {
		err = errors.Join(err, fmt.Errorf("the disk is mounted at %q; want the place for all pods, and the pod's", lines))
	}
	volumes := filepath.Join(h.agent.Root(), "pods", p.UID, "volumes")
	for _, file := range []string{"kubernetes.io~empty-dir/own", "kubernetes.io~empty-dir/own/it", "kubernetes.io~iscsi/files/it"} {
		buffer := make([]byte, 256)
		n, e := unix.Getxattr(filepath.Join(volumes, file), "security.selinux", buffer)
		if has := strings.TrimRight(string(buffer[:max(n, 0)]), "\x00"); e != nil || has != label {
			err = errors.Join(err, fmt.Errorf("%s has label %q, want %q: %w", file, has, label, e))
		}
	}
	processes, globErr := filepath.Glob("/proc/[0-9]*/attr/current")
	is := slices.ContainsFunc(processes, func(file string) bool {
		has, _ := os.ReadFile(file) // it may have ended
		return strings.TrimRight(string(has), "\x00\n") == "system_u:system_r:container_t:"+level
	})
	if !is {
		err = errors.Join(err, globErr, fmt.Errorf("no process has level %s", level))
	}
	return lines, err
}
