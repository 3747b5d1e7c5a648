package volume

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
)

// Sources of the size of a volume, as the kubelet's metric kubelet_volume_metric_collection_duration_seconds has them.
const (
	SourceQuota  = "fsquota" // the project of an emptyDir
	SourceWalk   = "du"      // a walk
	SourceStatfs = "statfs"  // the file system that the volume has for itself
)

// UseProjectQuotas gives each emptyDir on disk that is made from now on a project of its own, and measures by it what
// has one, if the file system of the pods can do so: the error says why not. Only pods with users of their own have
// that: a process in any other may give its files another project. It is called before anything else. Complain is
// told why an emptyDir gets no project, or keeps one; it is then walked.
func (h *Volumes) UseProjectQuotas(k projectquota.Kernel, f projectquota.Files, complain func(error)) (err error) {
	root, err := h.pods.Root.Open(".")
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	h.noProject = complain
	h.projects, err = projectquota.Open(root, h.pods.Path, k, f)
	return err
}

// giveProject gives a new emptyDir, named below the pods' directory, a project.
func (h *Volumes) giveProject(pod *v1.Pod, name string) {
	if h.projects == nil || !podspec.OwnUsers(&pod.Spec) {
		return
	}
	dir, err := h.pods.Root.Open(name)
	if err == nil {
		defer dir.Close() //nolint:errcheck // nothing was written
		err = h.projects.Assign(dir, filepath.Join(h.pods.Path, name))
	}
	if err != nil {
		h.noProject(err)
	}
}

// takeProjects frees the projects of all that is below a name, which is about to be removed.
func (h *Volumes) takeProjects(name string) {
	if h.projects == nil {
		return
	}
	if err := h.projects.Release(filepath.Join(h.pods.Path, name)); err != nil {
		h.noProject(err)
	}
}

// projectTable is read once for all volumes of a measurement. If it can't be read, all are walked.
func (h *Volumes) projectTable() (t projectquota.Table) {
	if h.projects == nil {
		return t
	}
	t, err := h.projects.Table()
	if err != nil {
		h.noProject(err)
		return projectquota.Table{}
	}
	return t
}

// byProject measures a volume of files of the agent at path by its project. False: it has to be walked.
func (h *Volumes) byProject(pod *v1.Pod, path string, t projectquota.Table) (r room, measured bool) {
	name, err := filepath.Rel(h.pods.Real, path)
	named := filepath.Join(h.pods.Path, name)
	if err != nil || !podspec.OwnUsers(&pod.Spec) || !t.Lists(named) {
		return r, false
	}
	began := time.Now()
	dir, err := h.pods.Root.Open(name)
	if err != nil {
		return r, false
	}
	defer dir.Close() //nolint:errcheck // it was only read
	q, ok := t.Use(dir, named)
	var s unix.Statfs_t
	if !ok || unix.Fstatfs(int(dir.Fd()), &s) != nil {
		return r, false
	}
	r = roomOf(&s)
	r.Walked, r.Bytes, r.Entries = true, q.Bytes, q.Inodes
	h.measured(SourceQuota, time.Since(began))
	return r, true
}
