package machine

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Cgroups are those of the pods of a machine, of the driver cgroupfs. They end with
// the machine's power.
type Cgroups struct {
	Calls
	// Usage is the memory in use in each of them: a simulated machine counts none.
	Usage int64
	// values are by path, pods the paths by UID.
	values map[string]podcgroup.Values
	pods   map[types.UID]string
}

var _ port.Cgroups = (*Cgroups)(nil)

func newCgroups(clock simport.Clock) *Cgroups {
	return &Cgroups{Calls: Calls{clock: clock}, values: map[string]podcgroup.Values{}, pods: map[types.UID]string{}}
}

// Set implements port.Cgroups.
func (c *Cgroups) Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	path := name.Path(podcgroup.Cgroupfs)
	uid, is := podcgroup.UIDOf(name[len(name)-1], podcgroup.Cgroupfs)
	c.do(ctx, Call{Verb: "SetCgroup", Pod: string(uid), Name: path}, cgroupLatency, done, func() error {
		c.values[path] = v.Over(c.values[path])
		if is {
			c.pods[uid] = path
		}
		return nil
	})
}

// Get implements port.Cgroups.
func (c *Cgroups) Get(ctx context.Context, name podcgroup.Name, done func(observed.Resources, int64, error)) {
	path := name.Path(podcgroup.Cgroupfs)
	uid, _ := podcgroup.UIDOf(name[len(name)-1], podcgroup.Cgroupfs)
	var has observed.Resources
	var usage int64
	call := Call{Verb: "GetCgroup", Pod: string(uid), Name: path}
	c.do(ctx, call, cgroupLatency, func(err error) { done(has, usage, err) }, func() error {
		v, there := c.values[path]
		if !there {
			return &port.Error{Kind: port.NotFound, Verb: "GetCgroup", Object: path, Detail: "there is no such cgroup"}
		}
		has, usage = v.Resources(), c.Usage
		has.CPUShares = 0
		return nil
	})
}

// RemovePod implements port.Cgroups.
func (c *Cgroups) RemovePod(ctx context.Context, uid types.UID, done func(error)) {
	c.do(ctx, Call{Verb: "RemovePodCgroup", Pod: string(uid)}, cgroupLatency, done, func() error {
		delete(c.values, c.pods[uid])
		delete(c.pods, uid)
		return nil
	})
}

// Pods implements port.Cgroups.
func (c *Cgroups) Pods(ctx context.Context, done func([]types.UID, error)) {
	var uids []types.UID
	c.do(ctx, Call{Verb: "PodCgroups"}, cgroupLatency, func(err error) { done(uids, err) }, func() error {
		uids = slices.Sorted(maps.Keys(c.pods))
		return nil
	})
}

// clear ends all cgroups, as the end of the kernel does.
func (c *Cgroups) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.values)
	clear(c.pods)
}

// Values are the limits of all cgroups by path, such as /kubepods/burstable/pod<UID>.
func (c *Cgroups) Values() map[string]podcgroup.Values {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.values)
}

// Has reports whether a pod has a cgroup.
func (c *Cgroups) Has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[uid] != ""
}

// Owners are the pods that have a cgroup, sorted.
func (c *Cgroups) Owners() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.pods))
}

// Put makes the cgroup of a pod, as a predecessor may have left it.
func (c *Cgroups) Put(uid types.UID, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[path], c.pods[uid] = podcgroup.Values{}, path
}
