package claims_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/tests/damage"
)

// TestDamagedFiles: whatever the file has, a pod that runs keeps the claim that the file has of it, or has it prepared
// again. No claim is unprepared that the file says a pod uses.
func TestDamagedFiles(t *testing.T) {
	const content = `[{"ClaimUID":"uid-a","ClaimName":"a","Namespace":"ns","PodUIDs":{"p":{},"gone":{}},"DriverState":{"gpu":{"Devices":[` +
		`{"PoolName":"n","DeviceName":"old","ShareID":null,"RequestNames":["one"],"CDIDeviceIDs":["gpu=old"]}]}}},` +
		`{"ClaimUID":"uid-b","ClaimName":"b","Namespace":"ns","PodUIDs":{"gone":{}},"DriverState":{"net":{"Devices":null}}}]`
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test that can be repeated
	aside, kept := 0, 0
	for i := range damage.Readings {
		data := damage.Sealed(random, []byte(content), damage.SealClaims)
		r := newRig(t, func(r *rig) { r.file = data })
		all, err := claims.Parse(data)
		has := slices.ContainsFunc(all, func(c claims.Claim) bool {
			return c.UID == "uid-a" && c.Namespace == "ns" && c.Name == "a" && slices.Contains(c.Pods, "p")
		})
		logged := r.Log.String()
		if n := strings.Count(logged, "\n"); err == nil && n > 0 || err != nil && (n != 1 || r.Logged(claims.FileName, "/aside") != 1) {
			t.Fatalf("%d: %.200q, %v: logged %s", i, data, err, logged)
		}
		m := r.prepare("p", "a")
		m.Make = false
		r.tells(m)
		r.registers("gpu", false)
		r.registers("net", false)
		r.allocate("a", []string{"gpu"}, "p")
		r.Advance(20 * time.Second) // past the first sweep
		known := func() bool {
			return slices.ContainsFunc(r.Lines(), func(l string) bool { return strings.HasPrefix(l, "p: known") })
		}
		switch {
		case err != nil:
			aside++
			if r.answers(nil, prepareA); !known() || r.Count("checkpoint: set aside") != 1 {
				t.Fatalf("%d: %.200q: %q", i, data, r.Lines())
			}
		case has:
			kept++
			if !known() || r.Count("drivers: "+prepareA)+r.Count("drivers: "+unprepareA) > 0 {
				t.Fatalf("%d: %.200q: %q", i, data, r.Lines())
			}
		}
	}
	if aside < damage.Readings/4 || kept < damage.Readings/100 {
		t.Errorf("%d files were set aside, of %d the claim was kept", aside, kept)
	}
}
