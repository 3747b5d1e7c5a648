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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

// TestCSIHostile: a driver whose calls all fail, hang and answer late in turns holds up no pod with a volume of another
// driver, and its own pods come and go once it answers.
//
//tier:all faults of a driver, which scenarios have on a virtual clock
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
	check.Value(b.admin.StorageV1().CSIDrivers().Create(t.Context(), object, metav1.CreateOptions{}))(t)
	binary := check.Value(shared.CSIDriver())(t)
	t.Cleanup(func() {
		check.Error(t, b.admin.StorageV1().CSIDrivers().Delete(context.Background(), hostile.Name, metav1.DeleteOptions{}))
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
		for i := range 2 {
			b.create(t, b.pod(fmt.Sprint(round, "-other-", i), inline(b.driver.Name)))
		}
		for i := range 2 {
			b.awaitPod(t, fmt.Sprint(round, "-other-", i), "is ready", ready)
			b.remove(t, fmt.Sprint(round, "-other-", i))
		}
		for i := range 2 {
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
		check.Fatal(t, hostile.Set(t.Context(), fault))
		b.create(t, b.pod(name+"-begins", inline(hostile.Name)))
		b.remove(t, name+"-ends")
		took := others(name)
		t.Logf("pods of another driver took %v beside one that %s, and %v alone", took.Round(time.Millisecond), name, alone.Round(time.Millisecond))
		// Not a measurement: the machine is busy with other tests. A pod that waited would wait for the deadline of a call.
		if took > 2*alone+10*time.Second {
			t.Errorf("pods of another driver took %v beside one that %s, and %v alone", took, name, alone)
		}
		check.Error(t, usable(b.node(t)))
		check.Fatal(t, hostile.End(t.Context(), "*"))
		b.awaitGone(t, name+"-ends")
		b.awaitPod(t, name+"-begins", "is ready once the driver answers", ready)
		b.ends(t, name+"-begins")
	}
	check.None(t, check.Value(hostile.Left())(t), "of the hostile driver there is left")
}

// hostileMethods are the calls of a driver that an agent makes.
var hostileMethods = []string{
	"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "NodeExpandVolume", "NodeGetCapabilities",
	"NodeGetInfo",
}

// TestCSIHostileCalls: each call of the mock driver of Kubernetes fails, hangs and answers late in turns. No pod of another
// driver waits for that, and its own come and go once it answers. The benchmark cluster-csi-hostile measures whether others
// take longer.
//
//tier:all faults of a driver, which scenarios have on a virtual clock
func TestCSIHostileCalls(t *testing.T) {
	t.Parallel()
	b := started(t, "csi-calls")
	good := b.newDisks(t, func(c *csidriver.Config, s *storagev1.CSIDriverSpec) { c.NoAttach, s.AttachRequired = true, new(false) })
	bad := b.newDisks(t, func(c *csidriver.Config, s *storagev1.CSIDriverSpec) {
		c.Name, c.Dir, c.Socket, c.Control = "bad."+c.Name, c.Dir+"-bad", c.Socket+".bad", c.Control+".bad"
		c.Mock, c.NoAttach, s.AttachRequired = true, true, new(false)
		s.NodeAllocatableUpdatePeriodSeconds = new(int64(10)) // so often NodeGetInfo is called
	})
	// Two pods take turns, each with its own volume: in each turn one comes and the other goes.
	names := []string{"even", "odd"}
	for _, name := range names {
		bad.claim(t, name, v1.ReadWriteOnce)
	}
	inline := v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: good.Name}}
	p := b.paced(t)
	p.round(t, "first", 1, uses(inline))
	alone := p.round(t, "alone", 2, uses(inline))
	begins := func(turn int) string { return names[turn%2] }
	b.create(t, b.pod(begins(1), uses(claimSource(begins(1)))))
	b.awaitPod(t, begins(1), "is ready", ready)
	t.Cleanup(func() {
		for _, method := range hostileMethods {
			check.Error(t, bad.End(context.Background(), method))
		}
	})
	faults := []struct {
		name string
		is   csidriver.Fault
	}{{"fails", csidriver.Fault{Code: codes.Internal, Message: "no"}}, {"hangs", csidriver.Fault{Hang: true}}, {"is late", csidriver.Fault{Late: 2 * time.Second}}}
	for turn := range len(hostileMethods) * len(faults) {
		fault, method := faults[turn%len(faults)], hostileMethods[turn/len(faults)]
		what := "a driver whose " + method + " " + fault.name
		fault.is.Method = method
		t.Logf("turn %d: %s", turn, what)
		comes, goes := begins(turn), begins(turn+1)
		b.shrink(t, comes)
		check.Fatal(t, bad.Set(t.Context(), fault.is))
		began := time.Now()
		b.create(t, b.pod(comes, uses(claimSource(comes))))
		b.remove(t, goes)
		b.await(t, what+" was called", func() error { return bad.suffered(t, method, began) })
		p.round(t, fmt.Sprint("beside-", turn), 1, uses(inline)).unhindered(t, what, alone)
		check.Fatal(t, bad.End(t.Context(), method))
		b.awaitGone(t, goes)
		b.awaitPod(t, comes, "is ready once the driver answers", ready)
	}
	last := begins(len(hostileMethods)*len(faults) - 1)
	b.remove(t, last)
	b.awaitGone(t, last)
	check.Error(t, usable(b.node(t)))
}

// shrink has a claim say that its volume is smaller than it is, which the node has to expand then.
func (b *bed) shrink(t *testing.T, claim string) {
	t.Helper()
	b.await(t, "claim "+claim+" is bound", func() error {
		c, err := b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), claim, metav1.GetOptions{})
		if err == nil && c.Status.Phase != v1.ClaimBound {
			err = fmt.Errorf("it is %s", c.Status.Phase)
		}
		if err != nil {
			return err
		}
		c.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("8Mi")}
		_, err = b.admin.CoreV1().PersistentVolumeClaims(b.name).UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
		return err
	})
}

// suffered is nil once a call of a method since then has had its fault, or has it.
func (d *disks) suffered(t *testing.T, method string, since time.Time) error {
	t.Helper()
	calls, err := d.Calls()
	for _, c := range calls {
		if c.Method == method && c.Began.After(since) {
			return nil
		}
	}
	if err == nil && d.Hanging(t.Context(), method) == 0 {
		err = fmt.Errorf("there was no call of %s", method)
	}
	return err
}
