package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

const (
	quotaDir = "/quota"
	// quotaPort serves metrics.
	quotaPort     = 10255
	quotaSettings = `featureGates: {LocalStorageCapacityIsolationFSQuotaMonitoring: true}
readOnlyPort: 10255
`
)

// quota runs a node of its own on a file system with project quotas.
func (h *host) quota(ctx context.Context) (err error) {
	defer check.Return(&err)
	check.OK(mountDisk(vm.Disks[0]))
	defer func() {
		err = errors.Join(err, await(ctx, quotaDir+" is unmounted", func() error { return unix.Unmount(quotaDir, 0) }))
	}()
	q := newHost(h.machine, h.release, h.registry, h.reporter)
	q.lab = check.Must(lab.New(ctx, lab.Config{
		Dir: filepath.Join(quotaDir, "c"), Release: h.release, Registry: h.registry,
		BinDir: vm.ContainerdDir(h.release), RuncDir: vm.NewRuncDir,
	}))
	defer func() { err = errors.Join(err, q.lab.RemovePods(ctx), q.lab.Close()) }()
	check.OK(q.lab.Start(ctx))
	q.agent = check.Must(node.New(node.Config{
		Binary: vm.AgentPath, Dir: filepath.Join(quotaDir, "n"), Endpoint: q.lab.Endpoint(), CgroupRoot: q.lab.CgroupRoot(),
		Port: quotaPort - 1, Settings: quotaSettings,
	}))
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			q.printWhy(ctx)
		}
		err = errors.Join(err, q.agent.Stop(ctx))
	}()
	q.agent.SetFlags(clusterFlags...)
	api := check.Must(q.cluster())
	defer q.leave()
	check.OK(q.agent.Start(ctx))
	return q.evictByQuota(ctx, api)
}

func mountDisk(d vm.Disk) error {
	if err := os.MkdirAll(quotaDir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(d.Device, quotaDir, d.Kind, 0, d.Options); err != nil {
		return fmt.Errorf("mount %s: %w", d.Device, err)
	}
	return nil
}

// projects gives directories projects, on each file system and by each system call.
func (h *host) projects(ctx context.Context) (err error) {
	defer check.Return(&err)
	for _, d := range vm.Disks {
		check.OK(mountDisk(d))
		err := errors.Join(useProject(projectquota.Linux{}), useProject(projectquota.Linux{ByDevice: true}))
		err = errors.Join(err, await(ctx, quotaDir+" is unmounted", func() error { return unix.Unmount(quotaDir, 0) }))
		if err != nil {
			return fmt.Errorf("on %s: %w", d.Kind, err)
		}
	}
	root := check.Must(os.Open("/run"))
	defer root.Close()
	if _, err = projectquota.Open(root, "/run", projectquota.Linux{}, projectquota.Etc); err == nil {
		return errors.New("a tmpfs has project quotas")
	}
	fmt.Printf("--- without project quotas: %v\n", err)
	return nil
}

// useProject gives a new directory a project, and writes to it.
func useProject(kernel projectquota.Kernel) (err error) {
	defer check.Return(&err)
	path, stray := filepath.Join(quotaDir, "directory"), filepath.Join(quotaDir, "stray")
	check.OK(errors.Join(os.Mkdir(path, 0o755), os.WriteFile(stray, nil, 0o644)))
	defer func() { err = errors.Join(err, os.RemoveAll(path), os.Remove(stray)) }()
	root := check.Must(os.Open(quotaDir))
	defer root.Close()
	dir := check.Must(os.Open(path))
	defer dir.Close()
	projects := check.Must(projectquota.Open(root, quotaDir, kernel, projectquota.Etc))
	check.OK(projects.Assign(dir, path))
	const size = 3 << 20
	file := filepath.Join(path, "below", "file")
	check.OK(errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, make([]byte, size), 0o644)))
	table := check.Must(projects.Table())
	if used, ok := table.Use(dir, path); !ok || used.Inodes != 3 || used.Bytes < size || used.Bytes > 2*size {
		return fmt.Errorf("the project has %+v, %v; want 3 inodes and %d bytes", used, ok, size)
	}
	for what, err := range map[string]error{
		"link": os.Link(stray, filepath.Join(path, "linked")), "rename": os.Rename(stray, filepath.Join(path, "renamed")),
	} {
		if !errors.Is(err, unix.EXDEV) {
			return fmt.Errorf("%s a file into the directory: %w; want %w", what, err, unix.EXDEV)
		}
	}
	return projects.Release(path)
}

// projected is a pod that writes a little, and when it is told to more than it may. It fails
// if its root can change a project.
func projected(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: node.NodeName, TerminationGracePeriodSeconds: new(int64(1)), HostUsers: new(false),
		AutomountServiceAccountToken: new(false), RestartPolicy: v1.RestartPolicyNever,
		Containers: []v1.Container{{
			Name: "main", Image: lab.WorkImage,
			Args:         strings.Fields("write /here/little x then unproject /here/little then touch /here/refused then await /here/go then fill /here/much 100 32"),
			VolumeMounts: []v1.VolumeMount{{Name: "here", MountPath: "/here"}},
		}},
		Volumes: []v1.Volume{{Name: "here", VolumeSource: v1.VolumeSource{
			EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("16Mi"))},
		}}},
	}}
}

// evictByQuota has a pod write past the limit of an emptyDir that has a project, and another agent notice.
func (h *host) evictByQuota(ctx context.Context, api kubernetes.Interface) (err error) {
	defer check.Return(&err)
	const name = "projected"
	pods := api.CoreV1().Pods(metav1.NamespaceDefault)
	check.Must(pods.Create(ctx, projected(name), metav1.CreateOptions{}))
	var pod *v1.Pod
	awaitPhase := func(what string, holds func(*v1.PodStatus) bool) error {
		return await(ctx, what, func() (err error) {
			if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err == nil && !holds(&pod.Status) {
				err = fmt.Errorf("it is %s, %s: %s %+v", pod.Status.Phase, pod.Status.Reason, pod.Status.Message, pod.Status.ContainerStatuses)
			}
			return err
		})
	}
	check.OK(awaitPhase("the pod runs", func(s *v1.PodStatus) bool { return s.Phase == v1.PodRunning }))
	dir := filepath.Join(h.agent.Root(), "pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/here")
	check.OK(await(ctx, "root in the pod can't change a file's project", func() error {
		_, err := os.Stat(filepath.Join(dir, "refused"))
		return err
	}))
	given := check.Must(projectOf(dir))
	check.OK(errors.Join(h.agent.Kill(ctx), h.agent.Start(ctx)))
	if kept, err := projectOf(dir); err != nil || kept != given {
		return fmt.Errorf("the volume has project %d, and after a restart %d: %w", given, kept, err)
	}
	check.OK(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	evicted := func(s *v1.PodStatus) bool { return s.Phase == v1.PodFailed && s.Reason == "Evicted" }
	check.OK(awaitPhase("the pod is evicted", evicted))
	if !strings.Contains(pod.Status.Message, `"here"`) {
		return fmt.Errorf("the pod was evicted for another reason: %s", pod.Status.Message)
	}
	check.OK(measuredByQuota(ctx))
	check.OK(deletePods(ctx, api, name))
	return await(ctx, "the project is free", func() error { return isFree(given) })
}

// projectOf is the project of a directory, which is nobody's else.
func projectOf(path string) (_ uint32, err error) {
	defer check.Return(&err)
	dir := check.Must(os.Open(path))
	defer dir.Close()
	a := check.Must(projectquota.Linux{}.Attributes(dir))
	text, err := os.ReadFile(projectquota.Etc.Projects)
	if want := fmt.Sprintf("%d:%s\n", a.Project, path); err == nil && string(text) != want {
		err = fmt.Errorf("%s is %q, want %q", projectquota.Etc.Projects, text, want)
	}
	return a.Project, err
}

// measuredByQuota is nil if the agent has measured volumes by quota, and has walked none.
func measuredByQuota(ctx context.Context) (err error) {
	defer check.Return(&err)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", quotaPort), nil)
	if err != nil {
		return err
	}
	response := check.Must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	text := check.Must(io.ReadAll(response.Body))
	const count = "kubelet_volume_metric_collection_duration_seconds_count"
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, count) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	fmt.Printf("--- volumes were measured: %v\n", lines)
	if len(lines) != 1 || !strings.HasPrefix(lines[0], count+`{metric_source="fsquota"} `) {
		return fmt.Errorf("volumes were measured like this: %q, want by fsquota only", lines)
	}
	return nil
}

// isFree is nil if nobody has the project.
func isFree(project uint32) error {
	for _, file := range []string{projectquota.Etc.Projects, projectquota.Etc.Names} {
		if text, err := os.ReadFile(file); err != nil || len(text) > 0 {
			return fmt.Errorf("%s has %q, %w", file, text, err)
		}
	}
	dir, err := os.Open(quotaDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	used, err := projectquota.Linux{}.Quota(dir, project)
	if err == nil && used.Inodes+used.Bytes > 0 {
		err = fmt.Errorf("project %d has %+v", project, used)
	}
	return err
}
