package csidrivers

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// light finds by the mount table what is published in directories of pods that can't be read, such as those on a disk
// with errors. The mount of a publication shows the file system of the staged volume, if the driver has bound it. If
// the mount table does not say what a mount is of, all staged volumes are held: it may be any of them.
func (d *Drivers) light(s *scan) error {
	if len(s.dark) == 0 {
		return nil
	}
	all, err := d.Host.Mounts()
	if err != nil {
		return err
	}
	for _, m := range all {
		t, is := d.darkTarget(s, m.Point)
		if !is || slices.ContainsFunc(s.found, func(f decide.Found) bool { return f.Target == t }) {
			continue
		}
		if k, is := d.stagedOf(s, all, m); is {
			s.found = append(s.found, decide.Found{Key: k, Target: t})
			continue
		}
		s.hold(fmt.Sprintf("%s is mounted, and of which volume can't be read: unmount it, or mend the directory of the pod; "+
			"then restart the agent", m.Point))
	}
	return nil
}

// darkTarget is the publication whose mount would be at a point, if the point is in a directory that can't be read.
func (d *Drivers) darkTarget(s *scan, point string) (t decide.Target, is bool) {
	rest, is := strings.CutPrefix(point, d.pods.Real+"/")
	if !is || !slices.ContainsFunc(s.dark, func(dir string) bool { return strings.HasPrefix(rest, dir+"/") }) {
		return t, false
	}
	uid, rest, _ := strings.Cut(rest, "/")
	rest, is = strings.CutPrefix(rest, volumeDir+"/")
	if !is || filepath.Base(rest) != podMount || strings.Count(rest, "/") != 1 {
		return t, false
	}
	return decide.Target{Pod: types.UID(uid), Name: filepath.Dir(rest)}, true
}

// stagedOf is the one staged volume whose file system, and what of it, a mount shows.
func (d *Drivers) stagedOf(s *scan, all []mounts.Mount, of mounts.Mount) (k decide.Key, is bool) {
	for _, f := range s.found {
		dir, err := stageDir(f.Key)
		if err != nil || f.Target.Pod != "" || f.Block {
			continue
		}
		point := filepath.Join(d.staged.Real, dir, globalMount)
		for _, m := range all {
			if m.Point == point && m.Device == of.Device && m.Root == of.Root {
				if is && k != f.Key {
					return decide.Key{}, false // two have it
				}
				k, is = f.Key, true
			}
		}
	}
	return k, is
}

// hold has all staged volumes stay.
func (s *scan) hold(why string) {
	for i := range s.found {
		if f := &s.found[i]; f.Target.Pod == "" && !f.Block {
			f.Held = why
		}
	}
	for i := range s.left {
		s.left[i].Held = why
	}
}
