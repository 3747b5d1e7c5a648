package checkpoint

import (
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// State is how far an actor is with reading and writing its checkpoint. What changes during a read or a write is
// noted, and written next.
//
//	Unread ──► Loading ──read──► Clean ──changed──► Dirty ◄──────────────── timer ─┐
//	  ▲           └─can't be─┐     ▲                 │ ▲                           │
//	  │                      ▼     │                 ▼ └─changed meanwhile, failed │
//	  └───── timer ───── ReadLater └──── saved ─── Saving                      WriteLater
//
// Dirty becomes WriteLater when the next write has to wait, because one failed or because it would come too soon.
type State uint8

// States. Before Clean, nobody knows what the checkpoint says.
const (
	Unread State = iota
	Loading
	ReadLater
	Clean
	Dirty
	Saving
	WriteLater
)

var states = [...]string{"Unread", "Loading", "ReadLater", "Clean", "Dirty", "Saving", "WriteLater"}

func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Version numbers the changes of what a checkpoint has to say. 0 is before the first change.
type Version uint64

// Progress is a State, and which versions are on the disk. At most one effect is under way. What the diagram does not
// have is a bug, and panics. The zero value is Unread.
type Progress struct {
	state State
	// effect is the one under way, while Loading or Saving.
	effect kernel.EffectID
	// newest is the last change, saved what the disk has, tried what the last write that ended had, also if it failed,
	// and writing what the last write that began has.
	//
	// Invariant: saved <= tried <= writing <= newest; if Clean, saved == newest; if Dirty or WriteLater, saved < newest.
	newest, saved, tried, writing Version
}

// Check says that the invariant does not hold.
func (p *Progress) Check() error {
	ordered := p.saved <= p.tried && p.tried <= p.writing && p.writing <= p.newest
	dirty := p.state == Dirty || p.state == WriteLater
	if !ordered || p.state == Clean && p.saved != p.newest || dirty && p.saved == p.newest {
		return fmt.Errorf("checkpoint: saved <= tried <= writing <= newest; if Clean, saved == newest; if Dirty or "+
			"WriteLater, saved < newest: they are %d, %d, %d, %d, and it is %v", p.saved, p.tried, p.writing, p.newest, p.state)
	}
	return nil
}

// State is how far it is.
func (p *Progress) State() State { return p.state }

// Known says whether the checkpoint was read, or its actor goes on without it.
func (p *Progress) Known() bool { return p.state >= Clean }

// Changed notes that there is something new to write, and returns its version.
func (p *Progress) Changed() Version {
	if p.newest++; p.state == Clean {
		p.state = Dirty
	}
	return p.newest
}

// Has says whether a version is on the disk, whatever fails from now on.
func (p *Progress) Has(v Version) bool { return v <= p.saved }

// Tried says whether a write with a version has ended, for an actor that goes on also if it failed.
func (p *Progress) Tried(v Version) bool { return v <= p.tried }

// IsUnderWay says whether an effect is the one under way. Another one is not of this Progress, or of an earlier
// incarnation: the checkpoint was read after it.
func (p *Progress) IsUnderWay(id kernel.EffectID) bool { return id != 0 && id == p.effect }

// Begin notes that the checkpoint is being read if it is Unread, or else that all that has changed is being written.
func (p *Progress) Begin(id kernel.EffectID) {
	if p.state == Unread {
		p.become(Loading, Unread)
	} else {
		p.become(Saving, Dirty)
		p.writing = p.newest
	}
	p.effect = id
}

// End notes that the effect under way has ended. A read is well also if its actor goes on without the checkpoint; else
// it is ReadLater.
func (p *Progress) End(well bool) {
	next := Clean
	switch {
	case p.state != Loading:
		p.become(Dirty, Saving)
		if p.tried = p.writing; well {
			p.saved = p.writing
		}
	case !well:
		next = ReadLater
	}
	if p.effect = 0; next == Clean && p.saved < p.newest {
		next = Dirty
	}
	p.state = next
}

// Postpone notes that a timer was set for the next write.
func (p *Progress) Postpone() { p.become(WriteLater, Dirty) }

// TimeIsUp notes that the timer has fired. In other states it was that of another Progress.
func (p *Progress) TimeIsUp() {
	switch p.state {
	case ReadLater:
		p.state = Unread
	case WriteLater:
		p.state = Dirty
	default:
	}
}

func (p *Progress) become(next, from State) {
	if p.state != from {
		panic(fmt.Sprintf("checkpoint: it is %v, and can become %v only from %v", p.state, next, from))
	}
	p.state = next
}

// Waiting are values that nobody may know before a version is on the disk, in the order of Put.
type Waiting[T any] []waiting[T]

type waiting[T any] struct {
	value T
	until Version
}

// Put keeps a value until a version is on the disk.
func (w *Waiting[T]) Put(value T, until Version) { *w = append(*w, waiting[T]{value, until}) }

// Take removes the values that may be known now.
func (w *Waiting[T]) Take(p *Progress) (out []T) {
	*w = slices.DeleteFunc(*w, func(one waiting[T]) bool {
		known := p.Has(one.until)
		if known {
			out = append(out, one.value)
		}
		return known
	})
	return out
}
