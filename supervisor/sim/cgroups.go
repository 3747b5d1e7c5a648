package sim

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
)

// cgroups are those of a machine's pods. They outlive the agent, and end with the
// machine's power.
type cgroups struct {
	n *Node
	// values are by path, pods the paths by UID.
	values map[string]podcgroup.Values
	pods   map[types.UID]string
}

func newCgroups(n *Node) *cgroups {
	return &cgroups{n: n, values: map[string]podcgroup.Values{}, pods: map[types.UID]string{}}
}

// call is the host's: the same faults may befall it.
func (c *cgroups) call(ctx context.Context, verb, pod string, done func(error), f func()) {
	c.n.host.call(ctx, HostCall{Verb: verb, Pod: pod}, done, func() error { f(); return nil })
}

// Set implements port.Cgroups.
func (c *cgroups) Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	path := name.Path(podcgroup.Cgroupfs)
	uid, is := podcgroup.UIDOf(name[len(name)-1], podcgroup.Cgroupfs)
	c.call(ctx, "SetCgroup", string(uid), done, func() {
		c.values[path] = v.Over(c.values[path])
		if is {
			c.pods[uid] = path
		}
	})
}

// Get implements port.Cgroups. No machine of a simulation counts what pods use.
func (c *cgroups) Get(ctx context.Context, name podcgroup.Name, done func(observed.Resources, int64, error)) {
	path := name.Path(podcgroup.Cgroupfs)
	uid, _ := podcgroup.UIDOf(name[len(name)-1], podcgroup.Cgroupfs)
	var has observed.Resources
	var there bool
	c.call(ctx, "GetCgroup", string(uid), func(err error) {
		if err == nil && !there {
			err = &port.Error{Kind: port.NotFound, Verb: "GetCgroup", Object: path, Detail: "there is no such cgroup"}
		}
		done(has, 0, err)
	}, func() {
		var v podcgroup.Values
		v, there = c.values[path]
		has = v.Resources()
		has.CPUShares = 0
	})
}

// RemovePod implements port.Cgroups.
func (c *cgroups) RemovePod(ctx context.Context, uid types.UID, done func(error)) {
	c.call(ctx, "RemovePodCgroup", string(uid), done, func() {
		delete(c.values, c.pods[uid])
		delete(c.pods, uid)
	})
}

// Pods implements port.Cgroups.
func (c *cgroups) Pods(ctx context.Context, done func([]types.UID, error)) {
	var uids []types.UID
	c.call(ctx, "PodCgroups", "", func(err error) { done(uids, err) }, func() { uids = slices.Sorted(maps.Keys(c.pods)) })
}

var _ port.Cgroups = (*cgroups)(nil)

// Cgroups are the limits of the cgroups above those of containers, by path:
// /kubepods/burstable/pod<UID>. Nil if the node's spec has no Cgroups.
func (n *Node) Cgroups() map[string]podcgroup.Values {
	if n.cgroups == nil {
		return nil
	}
	return maps.Clone(n.cgroups.values)
}
