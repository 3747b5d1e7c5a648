package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

// TestCSIHostile: a driver whose calls all fail, hang and answer late in turns holds up no pod with a volume of another
// driver, and its own pods come and go once it answers.
func TestCSIHostile(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-hostile", csiAgent(t), nil)
	dir := filepath.Dir(b.driver.Socket)
	hostile := csidriver.Config{
		Name: "hostile.csi.test", Node: "hostile", Dir: filepath.Join(dir, "hostile"), Socket: filepath.Join(dir, "hostile.sock"),
		Control: filepath.Join(dir, "hostile-control.sock"), Registry: b.driver.Registry, NoAttach: true,
	}
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: hostile.Name}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), PodInfoOnMount: new(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
	}}
	if _, err := b.admin.StorageV1().CSIDrivers().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binary, err := shared.csiDriver()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.admin.StorageV1().CSIDrivers().Delete(context.Background(), hostile.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	newDriverProcess(t, binary, hostile)
	t.Cleanup(func() { b.noPods(t) }) // while there is the driver that they need
	inline := func(driver string) func(*v1.PodSpec) {
		return changes(work("append /v/log x then sleep"), func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}})}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v")}
		})
	}
	// others has pods of the other driver come and go, and says how long that took.
	others := func(round string) time.Duration {
		begun := time.Now()
		for i := range 4 {
			b.create(t, b.pod(fmt.Sprint(round, "-other-", i), inline(b.driver.Name)))
		}
		for i := range 4 {
			b.awaitPod(t, fmt.Sprint(round, "-other-", i), "is ready", ready)
			b.remove(t, fmt.Sprint(round, "-other-", i))
		}
		for i := range 4 {
			b.awaitGone(t, fmt.Sprint(round, "-other-", i))
		}
		return time.Since(begun)
	}
	alone := max(others("first"), others("alone"))
	for name, fault := range map[string]csidriver.Fault{
		"fails": {Code: codes.Internal, Message: "no"}, "fails-late": {Code: codes.Internal, Message: "no", Done: true},
		"late": {Late: 2 * time.Second}, "hangs": {Hang: true},
	} {
		b.runs(t, name+"-ends", inline(hostile.Name))
		fault.Method = "*"
		if err := hostile.Set(t.Context(), fault); err != nil {
			t.Fatal(err)
		}
		b.create(t, b.pod(name+"-begins", inline(hostile.Name)))
		b.remove(t, name+"-ends")
		took := others(name)
		t.Logf("pods of another driver took %v beside one that %s, and %v alone", took.Round(time.Millisecond), name, alone.Round(time.Millisecond))
		// Not a measurement: the machine is busy with other tests. A pod that waited would wait for the deadline of a call.
		if took > 2*alone+10*time.Second {
			t.Errorf("pods of another driver took %v beside one that %s, and %v alone", took, name, alone)
		}
		if err := usable(b.node(t)); err != nil {
			t.Error(err)
		}
		if err := hostile.End(t.Context(), "*"); err != nil {
			t.Fatal(err)
		}
		b.awaitGone(t, name+"-ends")
		b.awaitPod(t, name+"-begins", "is ready once the driver answers", ready)
		b.ends(t, name+"-begins")
	}
	if left, err := hostile.Left(); err != nil || len(left) > 0 {
		t.Errorf("of the hostile driver there is left: %v, %v", left, err)
	}
}
