package csidrivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// The kubelet's layout.
const (
	pluginDir   = "plugins/kubernetes.io/csi"
	volumeDir   = "volumes/kubernetes.io~csi"
	globalMount = "globalmount"
	podMount    = "mount"
	notesName   = "vol_data.json"
	// Directories of pluginDir that are no driver's: devices, and what kubelets before v1.24 staged.
	devicesDir, oldDir = "volumeDevices", "pv"
)

const (
	dirMode  = 0o750
	noteMode = 0o644
	// notesLimit bounds how much is read of notes.
	notesLimit = 64 << 10
)

// Keys of the notes.
const (
	noteName       = "specVolID"
	noteHandle     = "volumeHandle"
	noteDriver     = "driverName"
	noteNode       = "nodeName"
	noteAttachment = "attachmentID"
	noteKind       = "volumeLifecycleMode"
	noteLabel      = "seLinuxMountContext" // only with a label
)

// New opens the directories, and makes them if they are not there.
func New(c Config) (*Drivers, error) {
	staged, err := agentdir.Open(filepath.Join(c.Root, pluginDir), dirMode)
	if err != nil {
		return nil, fmt.Errorf("open the directory of CSI volumes: %w", err)
	}
	pods, err := agentdir.Open(filepath.Join(c.Root, "pods"), agentdir.Mode)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the pods directory: %w", err), staged.Root.Close())
	}
	return &Drivers{
		Config: c, staged: staged, pods: pods,
		places: map[decide.Target]*place{},
	}, nil
}

// stageDir is the directory of a staged volume.
func stageDir(k decide.Key) (string, error) {
	if err := agentdir.Element("CSI driver name", k.Driver); err != nil {
		return "", err
	}
	if k.Handle == "" || k.Driver == devicesDir || k.Driver == oldDir {
		return "", hostcall.Failf(port.InvalidConfig, "CSI driver %q, volume handle %q: there can be no such volume",
			k.Driver, k.Handle)
	}
	return filepath.Join(k.Driver, k.Dir()), nil
}

// podDir is the directory of a published volume.
func podDir(t decide.Target) (string, error) {
	uid, err := agentdir.PodDir(string(t.Pod))
	if err == nil {
		err = agentdir.Element("volume name", t.Name)
	}
	return filepath.Join(uid, volumeDir, t.Name), err
}

func notesOf(r *decide.Publish) map[string]string {
	mode := storagev1.VolumeLifecyclePersistent
	if r.Inline {
		mode = storagev1.VolumeLifecycleEphemeral
	}
	return labeled(r.Label, map[string]string{
		noteName: r.Name, noteHandle: r.Handle, noteDriver: r.Driver, noteNode: r.Node, noteKind: string(mode),
		noteAttachment: r.Attachment,
	})
}

// labeled adds an SELinux label to notes.
func labeled(label string, notes map[string]string) map[string]string {
	if label != "" {
		notes[noteLabel] = label
	}
	return notes
}

// writeNotes replaces the notes in a directory, unless they are the same.
func writeNotes(a *agentdir.Dir, dir string, notes map[string]string) error {
	if old, err := readNotes(a, dir); err == nil && maps.Equal(old, notes) {
		return nil
	}
	data, err := json.Marshal(notes)
	if err != nil {
		return err
	}
	// The driver is called after that: a machine that loses its power must not lose them.
	err = durable.Write(a.Root, filepath.Join(dir, notesName), append(data, '\n'), noteMode, durable.Kept)
	if err != nil {
		return fmt.Errorf("write %s: %w", notesName, err)
	}
	return nil
}

// readNotes reads the notes in a directory. Empty ones are none: a kubelet leaves them after a loss of power.
func readNotes(a *agentdir.Dir, dir string) (map[string]string, error) {
	data, err := regularfile.In(a.Root, filepath.Join(dir, notesName), notesLimit)
	if err != nil {
		return nil, err
	}
	if durable.Lost(data) {
		return nil, fmt.Errorf("it is empty: %w", fs.ErrNotExist)
	}
	notes := map[string]string{}
	if err := json.Unmarshal(data, &notes); err != nil {
		return nil, err
	}
	if notes[noteDriver] == "" || notes[noteHandle] == "" {
		return nil, fmt.Errorf("it has no %s or no %s", noteDriver, noteHandle)
	}
	return notes, nil
}

// mounted is what is mounted at a directory, nil for nothing.
func (d *Drivers) mounted(a *agentdir.Dir, path string) (*mounts.Mount, error) {
	all, err := d.Host.Mounts()
	if err != nil {
		return nil, err
	}
	return mounts.At(all, filepath.Join(a.Real, path)), nil
}

// elsewhere is an error while what is staged at a directory is mounted outside of the agent's directories, too:
// somebody uses it, and the volume must stay attached. What is below these belongs to volumes that are known, some of
// which may be of the same file system: two of one share, for example. A root directory that is mounted at a second
// place shows them there once more.
func (d *Drivers) elsewhere(path string) error {
	all, err := d.Host.Mounts()
	if err != nil {
		return err
	}
	at := filepath.Join(d.staged.Real, path)
	staged := mounts.At(all, at)
	if staged == nil || staged.Device == "" {
		return nil
	}
	var others []string
	for _, m := range all {
		ours := within(m.Point, d.staged.Real) || within(m.Point, d.pods.Real) ||
			strings.Contains(m.Point, stagedBelow) || strings.Contains(m.Point, publishedBelow)
		if m.Device == staged.Device && m.Root == staged.Root && !ours {
			others = append(others, m.Point)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return hostcall.Failf(port.StateConflict, "the device mount path %q is still mounted by other references %v", at,
		others)
}

// stagedBelow and publishedBelow are how directories of CSI volumes look below any root directory.
const (
	stagedBelow    = "/plugins/kubernetes.io/csi/"
	publishedBelow = "/volumes/kubernetes.io~csi/"
)

func within(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// makeMount makes the directory that a driver mounts at. It does not touch what is mounted there: it may hang.
func (d *Drivers) makeMount(a *agentdir.Dir, dir, name string) error {
	m, err := d.mounted(a, filepath.Join(dir, name))
	if m != nil || err != nil {
		return err
	}
	return a.Root.MkdirAll(filepath.Join(dir, name), dirMode)
}

// removeMount removes a directory that a driver has unmounted, and then the notes, and the directory of both.
func (d *Drivers) removeMount(a *agentdir.Dir, dir, name string) error {
	m, err := d.mounted(a, filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if m != nil {
		return hostcall.Failf(port.StateConflict, "the CSI driver has answered, but left its volume mounted: %s", m)
	}
	// The notes are kept until the rest is gone.
	note := filepath.Join(dir, notesName)
	all := []string{filepath.Join(dir, name), durable.Temporary(note), note, dir}
	for _, path := range all {
		if err := a.Root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// scan is what is found on disk. A directory that can't be read is named, and the rest is read.
type scan struct {
	found      []decide.Found
	unreadable []string
	// lost are directories of staged volumes whose notes can't be read, and why.
	lost map[string]error
	// dark are directories of pods below which there may be publications that can't be read.
	dark []string
	left []decide.Lost
}

// bad names what can't be read.
func (s *scan) bad(a *agentdir.Dir, path string, err error) {
	s.unreadable = append(s.unreadable, filepath.Join(a.Path, path)+": "+err.Error())
}

// sub is dirs for a directory that may be bad.
func (s *scan) sub(a *agentdir.Dir, dir string) []string {
	all, err := dirs(a, dir)
	if err != nil {
		s.bad(a, dir, err)
	}
	return all
}

// FoundVolumes implements port.CSI.
func (d *Drivers) FoundVolumes(ctx context.Context, done func([]decide.Found, []decide.Lost, []string, error)) {
	hostcall.Get(ctx, "FoundVolumes", "CSI", func(ctx context.Context) (scan, error) {
		s := scan{lost: map[string]error{}}
		err := errors.Join(d.scanStaged(ctx, &s), d.scanPods(ctx, &s), d.scanBlock(ctx, &s))
		d.recover(&s)
		return s, errors.Join(err, d.light(&s))
	}, func(s scan, err error) { done(s.found, s.left, s.unreadable, err) })
}

// dirs are the names of the directories in one; none if it is not there.
func dirs(a *agentdir.Dir, dir string) ([]string, error) { return a.Names(dir, fs.DirEntry.IsDir) }

func (d *Drivers) scanStaged(ctx context.Context, s *scan) error {
	drivers, err := dirs(d.staged, ".")
	if err != nil {
		return err
	}
	for _, driver := range drivers {
		if driver == devicesDir {
			continue
		}
		for _, v := range s.sub(d.staged, driver) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			dir := filepath.Join(driver, v)
			notes, err := readNotes(d.staged, dir)
			if errors.Is(err, fs.ErrNotExist) && d.removeMount(d.staged, dir, globalMount) == nil {
				continue // nothing was staged there
			}
			var want string
			k := decide.Key{Driver: notes[noteDriver], Handle: notes[noteHandle]}
			if err == nil {
				want, err = stageDir(k)
			}
			if err == nil && want != dir {
				err = fmt.Errorf("it is of volume %s, which is not staged here", k)
			}
			if err != nil {
				s.lost[dir] = err
				continue
			}
			s.found = append(s.found, decide.Found{Key: k, Label: notes[noteLabel]})
		}
	}
	return nil
}

// recover finds what is staged in a directory without notes by the notes of pods that have it published: the directory
// has the name of the handle's SHA-256.
func (d *Drivers) recover(s *scan) {
	for _, f := range s.found {
		if dir, err := stageDir(f.Key); err == nil && f.Target.Pod != "" && !f.Inline && !f.Block && s.lost[dir] != nil {
			delete(s.lost, dir)
			s.found = append(s.found, decide.Found{Key: f.Key, Label: f.Label})
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(s.lost)) {
		s.left = append(s.left, decide.Lost{
			Driver: filepath.Dir(dir), Dir: filepath.Base(dir),
			Why: filepath.Join(d.staged.Path, dir, notesName) + ": " + s.lost[dir].Error(),
		})
	}
}

func (d *Drivers) scanPods(ctx context.Context, s *scan) error {
	pods, err := dirs(d.pods, ".")
	if err != nil {
		return err
	}
	for _, uid := range pods {
		all, err := dirs(d.pods, filepath.Join(uid, volumeDir))
		if err != nil {
			s.bad(d.pods, filepath.Join(uid, volumeDir), err)
			s.dark = append(s.dark, filepath.Join(uid, volumeDir))
		}
		for _, v := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			dir := filepath.Join(uid, volumeDir, v)
			notes, err := readNotes(d.pods, dir)
			if errors.Is(err, fs.ErrNotExist) && d.removeMount(d.pods, dir, podMount) == nil {
				continue // nothing was published there
			}
			// A pod can't end while there are notes, so those that say nothing go with the last of what they may be of.
			if err != nil && d.removeMount(d.pods, dir, podMount) == nil {
				d.Log.Warn().Str("file", filepath.Join(d.pods.Path, dir, notesName)).Str("error", err.Error()).
					Msg("removed unreadable notes of a CSI volume: nothing is mounted there")
				continue
			}
			if err != nil {
				s.bad(d.pods, filepath.Join(dir, notesName), err)
				s.dark = append(s.dark, dir)
				continue
			}
			s.found = append(s.found, decide.Found{
				Key:    decide.Key{Driver: notes[noteDriver], Handle: notes[noteHandle]},
				Target: decide.Target{Pod: types.UID(uid), Name: v},
				Inline: notes[noteKind] == string(storagev1.VolumeLifecycleEphemeral), Label: notes[noteLabel],
			})
		}
	}
	return nil
}
