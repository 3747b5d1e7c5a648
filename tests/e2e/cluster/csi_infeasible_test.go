package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

// claimHistory is what a claim says of its expansion, from version to version: some of it only for a moment.
type claimHistory struct {
	watch watch.Interface
	// said are all statuses, conditions and capacities, without the name of the volume.
	said   map[string]bool
	volume string
}

// follow begins with the claim as it is.
func (b *csiBed) follow(t *testing.T, claim string) *claimHistory {
	t.Helper()
	volume := b.handle(t, claim)
	w := check.Value(
		b.admin.CoreV1().PersistentVolumeClaims(b.name).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + claim}))(t)
	t.Cleanup(w.Stop)
	return &claimHistory{watch: w, said: map[string]bool{}, volume: volume}
}

// until reads on to a version of the claim that is as wanted.
func (h *claimHistory) until(t *testing.T, what string, is func(*v1.PersistentVolumeClaim) bool) {
	t.Helper()
	limit := time.After(patience)
	last := "nothing"
	for {
		select {
		case e, open := <-h.watch.ResultChan():
			c, isClaim := e.Object.(*v1.PersistentVolumeClaim)
			if !open || !isClaim {
				t.Fatalf("the claim %s: the watch ends: %v", what, e)
			}
			last = h.note(c)
			if is(c) {
				return
			}
		case <-limit:
			t.Fatalf("the claim %s: not after %v; it says %s", what, patience, last)
		}
	}
}

// note adds what a version of the claim says, and returns it.
func (h *claimHistory) note(c *v1.PersistentVolumeClaim) string {
	lines := []string{"capacity " + c.Status.Capacity.Storage().String()}
	if of, is := c.Status.AllocatedResourceStatuses[v1.ResourceStorage]; is {
		lines = append(lines, fmt.Sprintf("status %s", of))
	}
	for _, one := range c.Status.Conditions {
		message := strings.ReplaceAll(one.Message, h.volume, "V")
		if at := strings.Index(message, "rpc error:"); at > 0 {
			message = message[at:] // before that, each agent says in its own words what it has tried
		}
		lines = append(lines, fmt.Sprintf("condition %s %s: %s", one.Type, one.Status, message))
	}
	for _, line := range lines {
		h.said[line] = true
	}
	return strings.Join(lines, "; ")
}

// infeasible is a claim whose expansion a node can't do. The controller soon has the node try again.
func infeasible(c *v1.PersistentVolumeClaim) bool {
	return c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInfeasible
}

// expansions are the calls of NodeExpandVolume for a volume that the driver has answered with a code.
func (b *csiBed) expansions(t *testing.T, volume string, code codes.Code) (out []csidriver.Call) {
	t.Helper()
	all := check.Value(b.driver.Calls())(t)
	for _, c := range all {
		if c.Method == "NodeExpandVolume" && c.Volume == volume && c.Code == code.String() {
			out = append(out, c)
		}
	}
	return out
}

// triedAgain waits until the driver was asked again for a size that it refuses. An agent does not ask it without end.
func (b *csiBed) triedAgain(t *testing.T, volume string, code codes.Code, rare bool) {
	t.Helper()
	var calls []csidriver.Call
	b.await(t, "the driver is asked again", func() error {
		if calls = b.expansions(t, volume, code); len(calls) < 2 {
			return fmt.Errorf("it was asked %d times", len(calls))
		}
		return nil
	})
	// troupe asks once a minute. The kubelet doubles its pauses, from half a second to two minutes.
	for i, c := range calls[1:] {
		pause := c.Began.Sub(calls[i].Began).Round(time.Millisecond)
		t.Logf("the driver was asked again after %v", pause)
		if rare && pause < 20*time.Second {
			t.Errorf("the driver was asked again after %v", pause)
		}
	}
}

// restartsIn kills the agent and starts it again; f happens in between.
func (b *csiBed) restartsIn(t *testing.T, f func()) {
	t.Helper()
	check.Fatal(t, b.member.Kill(t.Context()))
	f()
	check.Fatal(t, b.member.Start())
}

// TestCSIExpandInfeasible: only nodes expand the volumes of a driver, and it has not as much as a user asks for. The claim and
// the pod say so, the pod goes on, and the user asks for less (KEP-1790), while the agent is dead. The claim says the same
// with a kubelet.
//
//tier:all the kubelet runs beside
func TestCSIExpandInfeasible(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	said := map[string]map[string]bool{}
	t.Run("both", func(t *testing.T) {
		for agent := range agents() {
			t.Run(agent, func(t *testing.T) {
				t.Parallel()
				b := newCSIBed(t, "csi-less-"+agent, agentOf(t, agent).OwnPlugins(), func(c *csidriver.Config) {
					c.NodeExpands, c.Capacity = true, 448<<20
				})
				lines := b.asksForLess(t, agent == "troupe")
				mu.Lock()
				defer mu.Unlock()
				said[agent] = lines
			})
		}
	})
	if len(said) != 2 {
		return // told already
	}
	if !maps.Equal(said["kubelet"], said["troupe"]) {
		t.Errorf("with a kubelet, the claim says\n\t%s\nand with troupe\n\t%s",
			strings.Join(slices.Sorted(maps.Keys(said["kubelet"])), "\n\t"), strings.Join(slices.Sorted(maps.Keys(said["troupe"])), "\n\t"))
	}
}

func (b *csiBed) asksForLess(t *testing.T, rare bool) map[string]bool {
	t.Helper()
	b.wants(t, "less", "xfs", "320Mi")
	p := b.runs(t, "less", using("less"), work("append /v/log x then sleep"))
	h := b.follow(t, "less")
	b.asks(t, "less", "512Mi")
	h.until(t, "says that the node can't expand it", infeasible)
	b.awaitEvent(t, "less", "VolumeResizeFailed", "can't have 536870912 bytes")
	b.triedAgain(t, h.volume, codes.OutOfRange, rare)
	b.said(t, "less")
	b.restartsIn(t, func() { b.asks(t, "less", "400Mi") })
	b.awaitSize(t, b.inside(t, p, "/v"), 321, 400)
	h.until(t, "has the smaller size", has("400Mi"))
	b.awaitEvent(t, "less", "FileSystemResizeSuccessful", "")
	if pv := b.bound(t, "less"); pv.Spec.Capacity.Storage().String() != "400Mi" {
		t.Errorf("the PersistentVolume has %v", pv.Spec.Capacity)
	}
	if calls := b.expansions(t, h.volume, codes.OK); len(calls) != 1 {
		t.Errorf("the volume was expanded %d times: %v", len(calls), calls)
	}
	b.unchanged(t, p, "the volume was expanded")
	b.mountedOnce(t, p)
	b.ends(t, "less")
	return h.said
}

// TestCSIExpandStays: a volume that its controller has expanded stays so, whatever the user asks for then. The node expands it
// once its driver does, and the claim has that size.
//
//tier:all sidecars of third parties
func TestCSIExpandStays(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-stays", csiAgent(t), nil)
	fault := csidriver.Fault{Method: "NodeExpandVolume", Code: codes.InvalidArgument, Message: "this file system does not grow"}
	check.Fatal(t, b.driver.Set(t.Context(), fault))
	b.wants(t, "stays", "xfs", "320Mi")
	p := b.runs(t, "stays", using("stays"), work("append /v/log x then sleep"))
	h := b.follow(t, "stays")
	b.asks(t, "stays", "512Mi")
	h.until(t, "says that the node can't expand it", infeasible)
	b.awaitEvent(t, "stays", "VolumeResizeFailed", fault.Message)
	b.restartsIn(t, func() { b.asks(t, "stays", "400Mi") })
	b.await(t, "the driver is asked again", func() error {
		return check.That(len(b.expansions(t, h.volume, fault.Code)) >= 2, "it is not")
	})
	h.until(t, "says so again", infeasible)
	check.Fatal(t, b.driver.End(t.Context(), fault.Method))
	h.until(t, "has the size of the volume", has("512Mi"))
	b.awaitSize(t, b.inside(t, p, "/v"), 400, 512)
	b.unchanged(t, p, "the volume was expanded")
	b.mountedOnce(t, p)
	b.ends(t, "stays")
}
