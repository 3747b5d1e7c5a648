package volumeplan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
)

// input is what a plan is made from. What thousands of volumes, or of files, have in common is made once.
type input struct {
	pod     *v1.Pod
	objects podobjects.Set
	// mounted are the volumes that containers mount, devices those that they have as devices; nil: not looked for yet.
	mounted, devices map[string]bool
	size             func(*v1.EmptyDirVolumeSource) int64
	texts            map[*v1.Secret]map[string]string
	sums             map[content]uint64
}

// content is the data of files, which may be that of many.
type content struct {
	first *byte
	bytes int
}

// find finds out how containers use volumes.
func (in *input) find() {
	if in.mounted != nil {
		return
	}
	in.mounted, in.devices = map[string]bool{}, map[string]bool{}
	for c := range podspec.All(&in.pod.Spec) {
		for i := range c.VolumeMounts {
			in.mounted[c.VolumeMounts[i].Name] = true
		}
		for i := range c.VolumeDevices {
			in.devices[c.VolumeDevices[i].Name] = true
		}
	}
}

// mode says why containers can't use a volume as they do: it is a device or a file system.
func (in *input) mode(volume string, pv *v1.PersistentVolume) error {
	block := podspec.IsDevice(pv)
	if s := &pv.Spec; block && s.CSI == nil && s.Local == nil && s.ISCSI == nil && s.FC == nil {
		return errors.New("PV " + pv.Name + " has volumeMode Block, which is for local volumes on devices, iSCSI, Fibre " +
			"Channel and CSI drivers: use volumeMode Filesystem")
	}
	in.find()
	switch {
	case block && in.mounted[volume]:
		return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", volume)
	case !block && in.devices[volume]:
		return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", volume)
	}
	return nil
}

// inMemory is the size of a volume in memory.
func (in *input) inMemory(v *v1.EmptyDirVolumeSource, allocatable v1.ResourceList) int64 {
	if in.size == nil {
		in.size = EmptyDirSizes(in.pod, allocatable)
	}
	return in.size(v)
}

// secrets adds the secrets of a volume. As with a kubelet, that of an expansion may be missing until there is one, and
// that of a stage if the driver stages nothing, which is not known here.
func (in *input) secrets(s *csi.Spec, of *v1.CSIPersistentVolumeSource) (err error) {
	if r := of.NodeStageSecretRef; r != nil {
		s.StageSecrets, err = in.secret("nodeStageSecretRef", r.Namespace, r.Name)
		if podobjects.StateOf(err) == podobjects.Missing {
			s.NoStageSecret, err = err.Error(), nil
		}
	}
	if r := of.NodePublishSecretRef; r != nil && err == nil {
		s.PublishSecrets, err = in.secret("nodePublishSecretRef", r.Namespace, r.Name)
	}
	if r := of.NodeExpandSecretRef; r != nil && err == nil {
		s.ExpandSecrets, err = in.secret("nodeExpandSecretRef", r.Namespace, r.Name)
		if s.Size == 0 && podobjects.StateOf(err) == podobjects.Missing {
			err = nil // it is needed for nothing but an expansion
		}
	}
	return err
}

// secret is the content of a secret that a field of a CSI volume names.
func (in *input) secret(field, namespace, name string) (map[string]string, error) {
	o, err := in.objects.Secret(namespace, name)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", field, namespace, name, err)
	}
	if out, made := in.texts[o]; made {
		return out, nil
	}
	out := make(map[string]string, len(o.Data))
	for k, v := range o.Data { // order-free: a map again
		out[k] = string(v)
	}
	if in.texts == nil {
		in.texts = map[*v1.Secret]map[string]string{}
	}
	in.texts[o] = out
	return out, nil
}

func (in *input) version(c *volumefiles.Content) uint64 {
	h := fnv.New64a()
	for _, p := range c.Points {
		fmt.Fprintf(h, "%d %s ", len(p), p) //nolint:errcheck // a hash takes all
	}
	var sum [8]byte
	for i := range c.Files {
		f := &c.Files[i]
		fmt.Fprintf(h, "%d %s %o %d ", len(f.Path), f.Path, f.Mode, len(f.Data)) //nolint:errcheck // a hash takes all
		binary.LittleEndian.PutUint64(sum[:], in.sum(f.Data))
		h.Write(sum[:]) //nolint:errcheck // a hash takes all
	}
	return max(h.Sum64(), 1)
}

// sum is the hash of the data of a file, which is one key of an object, and may be that of any number of files.
func (in *input) sum(data []byte) uint64 {
	if len(data) == 0 {
		return 0
	}
	key := content{&data[0], len(data)}
	sum, made := in.sums[key]
	if !made {
		h := fnv.New64a()
		h.Write(data) //nolint:errcheck // a hash takes all
		if in.sums == nil {
			in.sums = map[content]uint64{}
		}
		sum = h.Sum64()
		in.sums[key] = sum
	}
	return sum
}
