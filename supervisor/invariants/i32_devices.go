package invariants

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var oneOwner = rule{
	Rule: Rule{
		ID: "I32", Text: "A device of a device plugin belongs to one running container at most, and a container that is " +
			"made again has the devices that it had.",
		Excuses: "Other devices: a pod with a deadline, which may begin another life after it. A checkpoint of devices " +
			"that can't be read, or has lost what was written last: no agent knows which devices the containers before it have.",
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if p.spec != nil && p.spec.Spec.ActiveDeadlineSeconds != nil {
			n.devices.forget(string(p.Ref.UID), t.Container)
		}
		return n.devices.Wrong(t)
	},
}

// Devices is who has which devices of one node.
type Devices struct {
	// owners are the running containers that have a device, by its resource and ID.
	owners map[string]string
	// had are the devices of each container of a pod, of its newest incarnation; by the pod's UID and container's name.
	had map[[2]string][]string
	// lost: it could not be known once.
	lost bool
}

// Wrong says what is wrong with a change of a container, empty for nothing.
func (d *Devices) Wrong(t *simcri.Transition) string {
	names := deviceNames(t.Devices)
	switch t.Kind {
	case observed.ContainerCreatedEvent:
		if had, is := d.had[[2]string{string(t.Pod.UID), t.Container}]; is && !slices.Equal(had, names) {
			return fmt.Sprintf("container %s is made again with the devices %v, and had %v", t.Container, names, had)
		}
	case observed.ContainerStartedEvent:
		for _, name := range names {
			if other := d.owners[name]; other != "" && other != t.ID {
				return fmt.Sprintf("container %s starts with %s, which container %s has", t.Container, name, other)
			}
		}
	case observed.ContainerStoppedEvent, observed.ContainerDeletedEvent:
	}
	return ""
}

// Changed takes in a change of a container.
func (d *Devices) Changed(t *simcri.Transition) {
	names := deviceNames(t.Devices)
	if t.Container == "" {
		return
	}
	key := [2]string{string(t.Pod.UID), t.Container}
	switch t.Kind {
	case observed.ContainerCreatedEvent:
		if len(names) == 0 {
			return // most have none
		}
		if d.had == nil {
			d.had, d.owners = map[[2]string][]string{}, map[string]string{}
		}
		d.had[key] = names
	case observed.ContainerStartedEvent:
		for _, name := range names {
			d.owners[name] = t.ID
		}
	case observed.ContainerStoppedEvent, observed.ContainerDeletedEvent:
		for _, name := range names {
			if d.owners[name] == t.ID {
				delete(d.owners, name)
			}
		}
	}
}

// forget ends what is known of a pod that the node has forgotten.
func (d *Devices) forget(uid, container string) { delete(d.had, [2]string{uid, container}) }

// Lost ends what is known of all containers: the agent can't know which devices they have, and gives them to others.
func (d *Devices) Lost() {
	clear(d.had)
	clear(d.owners)
	d.lost = true
}

func (d *Devices) forgetAll(p *Pod) {
	for name := range p.names { // order-free: all of them
		d.forget(string(p.Ref.UID), name)
	}
}

// deviceNames are the devices that a container was made with.
func deviceNames(given *devices.Given) (out []string) {
	if given == nil {
		return nil
	}
	for _, of := range given.PreStart {
		for _, id := range of.IDs {
			out = append(out, string(of.Resource)+"/"+id)
		}
	}
	return out
}
