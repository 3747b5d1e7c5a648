package csi

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// Measure are the parameters of NodeGetVolumeStats, for one publication.
type Measure struct {
	Key
	Target
	// Volumes are its names in the pod: a claim can be named twice.
	Volumes       []string
	Inline, Block bool
	// Health: the condition of the volume counts, if the driver knows it (feature gate CSIVolumeHealth, KEP-1432).
	Health bool
}

// Amount is what a driver says of bytes or inodes.
type Amount struct{ Total, Available, Used int64 }

// Health is what a driver says of the condition of a volume.
type Health struct {
	Abnormal bool
	Message  string
}

// Usage is the answer of NodeGetVolumeStats. An amount that a driver does not give is zero, as in a kubelet. Health is
// nil if the driver does not know it, or if it does not count.
type Usage struct {
	Bytes, Inodes Amount
	Health        *Health
}

// Disk is the usage in numbers that can be true: a negative one is unknown.
func (u Usage) Disk(at time.Time) usage.Disk {
	return usage.Disk{
		At: at, Capacity: natural(u.Bytes.Total), Available: natural(u.Bytes.Available), Used: natural(u.Bytes.Used),
		Inodes: natural(u.Inodes.Total), InodesFree: natural(u.Inodes.Available), InodesUsed: natural(u.Inodes.Used),
	}
}

func natural(n int64) *uint64 {
	if n < 0 {
		return nil
	}
	return new(uint64(n))
}

// Turn is when the driver was last asked for the figures of a publication; zero: never.
type Turn struct {
	At time.Time
	// Busy: it has not answered yet.
	Busy bool
}

// Turns says which turns of one driver are to be taken now, by their index: those that are due, the oldest first, while
// at most most of them have no answer. again is when the next one is due that has an answer; zero: none.
func Turns(turns []Turn, now time.Time, period time.Duration, most int) (begin []int, again time.Time) {
	var due []int
	for i, t := range turns {
		switch at := t.At.Add(period); {
		case t.Busy:
			most--
		case t.At.IsZero() || !at.After(now):
			due = append(due, i)
		case again.IsZero() || at.Before(again):
			again = at
		}
	}
	for len(due) > 0 && most > 0 {
		first := 0
		for i := range due {
			if turns[due[i]].At.Before(turns[due[first]].At) {
				first = i
			}
		}
		begin = append(begin, due[first])
		due = append(due[:first], due[first+1:]...)
		most--
	}
	return begin, again
}
