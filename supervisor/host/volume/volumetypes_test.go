package volume

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// given are the kinds of volumes that a node has, by the names of their fields. Of those with files (volumefiles.Holds)
// and with a claim others make something first, and a driver of CSI has words of its own.
var given = map[string]bool{
	"hostPath": true, "emptyDir": true, "secret": true, "nfs": true, "persistentVolumeClaim": true, "downwardAPI": true,
	"configMap": true, "projected": true, "csi": true, "ephemeral": true, "image": true, "local": true,
	"iscsi": true, "fc": true, "flexVolume": true,
}

// TestEveryOtherKindIsRefused: a kind of volume of the API that this node does not have is refused by the name of its
// field, whether it is in the pod or behind a claim.
func TestEveryOtherKindIsRefused(t *testing.T) {
	l := newLab(t)
	refused := 0
	each := func(source any, mount func(name string) error) {
		for i := range reflect.ValueOf(source).Elem().NumField() {
			field := reflect.ValueOf(source).Elem().Field(i)
			name, _, _ := strings.Cut(reflect.TypeOf(source).Elem().Field(i).Tag.Get("json"), ",")
			if given[name] {
				continue
			}
			refused++
			field.Set(reflect.New(field.Type().Elem()))
			hosttest.WantError(t, mount(name), port.InvalidConfig, `volume "data" is of type `+name, "which this node does not support")
			field.SetZero()
		}
	}
	var inPod v1.VolumeSource
	each(&inPod, func(string) error {
		_, err := l.mountRequest(ctx(t), port.MountVolume{Pod: newPod(), Volume: &v1.Volume{Name: "data", VolumeSource: inPod}})
		return err
	})
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv1"}}
	each(&pv.Spec.PersistentVolumeSource, func(name string) error {
		_, err := l.mountRequest(ctx(t), port.MountVolume{Pod: newPod(), Persistent: pv, Volume: &v1.Volume{
			Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
		}})
		if err != nil && !strings.Contains(err.Error(), name+" (of PersistentVolume pv1)") {
			t.Errorf("%s: the PersistentVolume is not named: %v", name, err)
		}
		return err
	})
	check.AtLeast(t, refused, 30, "only %d kinds were looked at", refused)
}
