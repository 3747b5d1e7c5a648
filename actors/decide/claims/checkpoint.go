package claims

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// FileName is that of the file.
const FileName = "dra_manager_state"

const (
	kind    = "DRACheckpoint"
	version = "checkpoint.dra.kubelet.k8s.io/v1"
)

// Claim is a claim that was prepared, or is about to be. It is never mutated once it was passed on.
type Claim struct {
	UID             types.UID
	Namespace, Name string
	// Pods are the pods that use it, sorted.
	Pods []types.UID
	// Drivers are the devices by the name of their DRA driver. A driver without devices has an entry too: it has to
	// unprepare the claim as well.
	Drivers map[string][]Device
}

// Device is a device of a claim, as its driver has described it.
type Device struct {
	Pool, Name string
	// Share tells the shares of a device apart (KEP-5075), empty for a device that is not shared.
	Share types.UID
	// Requests are the requests of the claim that the device is for. None: it is for all of them.
	Requests []string
	// CDI are fully-qualified names of devices (Container Device Interface).
	CDI []string
}

type file struct {
	Data     string
	Checksum uint32
}

type content struct {
	Kind       string  `json:"kind,omitempty"`
	APIVersion string  `json:"apiVersion,omitempty"`
	Claims     []entry `json:"ClaimInfoStateList"`
}

type entry struct {
	ClaimUID    types.UID
	ClaimName   string
	Namespace   string
	PodUIDs     map[types.UID]struct{}
	DriverState map[string]driverState
}

type driverState struct{ Devices []device }

type device struct {
	PoolName     string
	DeviceName   string
	ShareID      *types.UID
	RequestNames []string
	CDIDeviceIDs []string
}

// Parse reads a file. Its claims are sorted by namespace and name, of which each has one.
func Parse(data []byte) ([]Claim, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if sum := crc32.ChecksumIEEE([]byte(f.Data)); f.Checksum != sum {
		return nil, fmt.Errorf("its checksum is %d, and should be %d", f.Checksum, sum)
	}
	var c content
	if err := json.Unmarshal([]byte(f.Data), &c); err != nil {
		return nil, fmt.Errorf("its Data: %w", err)
	}
	if c.Kind != kind || c.APIVersion != version {
		return nil, fmt.Errorf("its Data is a %q of %q, and should be a %s of %s", c.Kind, c.APIVersion, kind, version)
	}
	out := make([]Claim, 0, len(c.Claims))
	seen, named := map[types.UID]bool{}, map[[2]string]bool{}
	for i := range c.Claims {
		e := &c.Claims[i]
		name := [2]string{e.Namespace, e.ClaimName}
		switch {
		case e.ClaimUID == "" || e.Namespace == "" || e.ClaimName == "":
			return nil, errors.New("it has a claim without UID, namespace or name")
		case seen[e.ClaimUID] || named[name]:
			return nil, fmt.Errorf("it has the claim %s/%s (%s) twice", e.Namespace, e.ClaimName, e.ClaimUID)
		}
		seen[e.ClaimUID], named[name] = true, true
		out = append(out, e.claim())
	}
	slices.SortFunc(out, byName)
	return out, nil
}

func byName(a, b Claim) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (e *entry) claim() Claim {
	c := Claim{
		UID: e.ClaimUID, Namespace: e.Namespace, Name: e.ClaimName, Pods: slices.Sorted(maps.Keys(e.PodUIDs)),
		Drivers: make(map[string][]Device, len(e.DriverState)),
	}
	for driver, s := range e.DriverState { // order-free: a map again
		var devices []Device
		for _, d := range s.Devices {
			one := Device{Pool: d.PoolName, Name: d.DeviceName, Requests: d.RequestNames, CDI: d.CDIDeviceIDs}
			if d.ShareID != nil {
				one.Share = *d.ShareID
			}
			devices = append(devices, one)
		}
		c.Drivers[driver] = devices
	}
	return c
}

// Format writes a file. Its claims are in the order of their namespaces and names.
func Format(claims []Claim) []byte {
	c := content{Kind: kind, APIVersion: version}
	for _, one := range slices.SortedFunc(slices.Values(claims), byName) {
		c.Claims = append(c.Claims, entryOf(&one))
	}
	data := marshal(c)
	return marshal(file{Data: string(data), Checksum: crc32.ChecksumIEEE(data)})
}

func entryOf(c *Claim) entry {
	e := entry{
		ClaimUID: c.UID, ClaimName: c.Name, Namespace: c.Namespace, PodUIDs: map[types.UID]struct{}{},
		DriverState: make(map[string]driverState, len(c.Drivers)),
	}
	for _, uid := range c.Pods {
		e.PodUIDs[uid] = struct{}{}
	}
	for driver, devices := range c.Drivers { // order-free: a map again
		var s driverState
		for i := range devices {
			d := &devices[i]
			one := device{PoolName: d.Pool, DeviceName: d.Name, RequestNames: d.Requests, CDIDeviceIDs: d.CDI}
			if d.Share != "" {
				one.ShareID = &d.Share
			}
			s.Devices = append(s.Devices, one)
		}
		e.DriverState[driver] = s
	}
	return e
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // there are only strings and numbers in it
	}
	return data
}
