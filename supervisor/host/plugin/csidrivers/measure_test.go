package csidrivers_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func (d *driver) NodeGetVolumeStats(ctx context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	d.mu.Lock()
	d.calls, d.last = append(d.calls, "stats"), r
	err, answer := d.fail["stats"], d.stats
	d.mu.Unlock()
	if answer == nil && err == nil { // it hangs
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return answer, err
}

func (r *rig) measure(ctx context.Context, d port.CSIDriver, health bool) (u decide.Usage, err error) {
	m := decide.Measure{Key: volume, Target: target, Volumes: []string{"data", "again"}, Health: health}
	err = hosttest.Wait(func(done func(error)) {
		r.VolumeStats(ctx, d, m, func(got decide.Usage, err error) { u = got; done(err) })
	})
	return u, err
}

// capacityOf is the capacity of a volume as those see it who read the use; false: none is known.
func (r *rig) capacityOf(volume string) (uint64, bool) {
	v, known := r.Use("u1", volume)
	if !known || v.Disk.Capacity == nil {
		return 0, known
	}
	return *v.Disk.Capacity, known
}

// TestVolumeStats: figures are those of the last answer, of what is published. A driver that fails or hangs has none.
func TestVolumeStats(t *testing.T) {
	r := newRig(t, func(d *driver) {
		d.caps = append(d.caps, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_VOLUME_CONDITION)
	})
	d := r.next()
	say := func(answer *csi.NodeGetVolumeStatsResponse, err error) {
		r.driver.mu.Lock()
		defer r.driver.mu.Unlock()
		r.driver.stats, r.driver.fail["stats"] = answer, err
	}
	use := func(total int64) *csi.NodeGetVolumeStatsResponse {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{nil,
			{Unit: csi.VolumeUsage_BYTES, Total: total, Used: 1}, {Unit: csi.VolumeUsage_UNKNOWN, Total: 7}, {Unit: 99, Total: 8}}}
	}
	say(use(10), nil)
	if u, err := r.measure(t.Context(), d, false); err != nil || u.Bytes.Total != 10 || u.Health != nil {
		t.Errorf("before it is published: %+v, %v", u, err)
	}
	if _, known := r.Use("u1", "data"); known {
		t.Error("there are figures of what is not published")
	}
	path := check.Value(r.publish(d, publish))(t)
	check.Value(r.measure(t.Context(), d, false))(t)
	if got := r.driver.last.(*csi.NodeGetVolumeStatsRequest); got.GetVolumePath() != path || got.GetVolumeId() != volume.Handle {
		t.Errorf("asked for %v, published at %s", got, path)
	}
	for _, volume := range []string{"data", "again"} {
		if n, known := r.capacityOf(volume); !known || n != 10 {
			t.Errorf("%s has %d, %v", volume, n, known)
		}
		v, _ := r.Use("u1", volume)
		check.Equal(t, v.Plugin, "kubernetes.io/csi:"+name, "the plugin of %s", volume)
	}
	for name, c := range map[string]struct {
		answer *csi.NodeGetVolumeStatsResponse
		err    error
		want   string
	}{
		"an error":    {nil, status.Error(codes.NotFound, "no such volume"), "no such volume"},
		"a long one":  {nil, status.Error(codes.Internal, strings.Repeat("x", 1<<20)), "rpc error: code = Internal"},
		"no usage":    {&csi.NodeGetVolumeStatsResponse{}, nil, "without a usage"},
		"unsupported": {nil, status.Error(codes.Unimplemented, "what?"), "what?"},
	} {
		say(use(10), nil)
		check.Value(r.measure(t.Context(), d, false))(t)
		say(c.answer, c.err)
		_, err := r.measure(t.Context(), d, false)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 4096 {
			t.Errorf("%s: %.300v", name, err)
		}
		if _, known := r.Use("u1", "data"); known {
			t.Errorf("%s: there are still figures", name)
		}
	}
	say(use(math.MaxInt64), nil)
	check.Value(r.measure(t.Context(), d, false))(t)
	if n, _ := r.capacityOf("data"); n != math.MaxInt64 {
		t.Errorf("a huge one has %d", n)
	}
	say(use(-5), nil)
	check.Value(r.measure(t.Context(), d, false))(t)
	if v, known := r.Use("u1", "data"); !known || v.Disk.Capacity != nil || *v.Disk.Used != 1 {
		t.Errorf("a negative one has %+v, %v", v, known)
	}
	answer := use(10)
	answer.VolumeCondition = &csi.VolumeCondition{Abnormal: true, Message: strings.Repeat("bad ", 1<<18)}
	say(answer, nil)
	if u, err := r.measure(t.Context(), d, true); err != nil || u.Health == nil || !u.Health.Abnormal || len(u.Health.Message) > 4096 {
		t.Errorf("an abnormal one: %.300v, %v", u, err)
	}
	if v, _ := r.Use("u1", "data"); v.Abnormal == nil || !*v.Abnormal {
		t.Errorf("an abnormal one has %+v", v)
	}
	say(nil, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // it is to begin with the call of the driver
	defer cancel()
	if _, err := r.measure(ctx, d, true); port.KindOf(err) != port.Deadline {
		t.Errorf("a driver that hangs: %v", err)
	}
	say(use(10), nil)
	check.Value(r.measure(t.Context(), d, true))(t)
	check.Fatal(t, r.undo(r.UnpublishVolume, d, decide.Found{Key: volume, Target: target}))
	if _, known := r.Use("u1", "data"); known {
		t.Error("there are figures of what is unpublished")
	}
}

// TestMeasuredByFileSystem: a volume is measured by its file system if its driver can't say how full it is.
func TestMeasuredByFileSystem(t *testing.T) {
	r := newRig(t, nil)
	d := r.next()
	check.Value(r.publish(d, publish))(t)
	check.None(t, r.given, "noted before the driver was asked")
	_, err := r.measure(t.Context(), d, false)
	hosttest.WantError(t, err, port.Unsupported, "does not say how full its volumes are")
	check.Equal(t, strings.Join(r.given, ", "), "claim u1 data mount, claim u1 again mount", "it")
	v, known := r.Use("u1", "data")
	check.Equal(t, known, false, "it has said how full it is")
	check.Equal(t, v.Plugin, "kubernetes.io/csi:"+name, "its plugin")
}
