package admin

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

// SocketName is the socket's name in the root directory.
const SocketName = "troupe.sock"

// SocketIn is the socket of the agent that runs on this root directory.
func SocketIn(rootDir string) string { return filepath.Join(rootDir, SocketName) }

// Tree is the answer of /v1/tree.
type Tree struct {
	Node string `json:"node"`
	// At is when it was read; ages are counted from it.
	At time.Time `json:"at"`
	// Actors are in order of path.
	Actors []kernel.ActorInfo `json:"actors"`
	Pools  []kernel.PoolState `json:"pools"`
	// DeadLetters are messages to stopped actors, Dropped those for a full mailbox.
	DeadLetters uint64 `json:"deadLetters"`
	Dropped     uint64 `json:"dropped"`
	// Crashes are the last ones, oldest first.
	Crashes []*kernel.CrashReport `json:"crashes"`
	// Goroutines of the agent: they do not grow with the number of pods.
	Goroutines int `json:"goroutines"`
}

// Timeline is the answer of /v1/timeline: what happened to a pod, and how it is.
type Timeline struct {
	timeline.View
	// At is when it was read; ages are counted from it.
	At time.Time `json:"at"`
	// Pod is nil if the pod is gone, or if the podview actor does not answer; Silent has the
	// reason then.
	Pod    *podview.Pod `json:"pod,omitempty"`
	Silent string       `json:"silent,omitempty"`
}

// EventView is one event that users should see.
type EventView struct {
	At        time.Time `json:"at"`
	Pod       string    `json:"pod"` // namespace/name
	Container string    `json:"container,omitempty"`
	Warning   bool      `json:"warning,omitempty"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
}

// The kernel writes phases and decisions as words; these read them back.

type effectWire struct {
	kernel.EffectInfo
	Phase string `json:"phase"`
}

type crashWire struct {
	kernel.CrashReport
	Decision string `json:"decision"`
}

type actorWire struct {
	kernel.ActorInfo
	Effects   []effectWire `json:"effects"`
	LastCrash *crashWire   `json:"lastCrash"`
}

// UnmarshalJSON reads what the server wrote.
func (t *Tree) UnmarshalJSON(b []byte) error {
	type plain Tree
	in := struct {
		*plain
		Actors  []actorWire  `json:"actors"`
		Crashes []*crashWire `json:"crashes"`
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	t.Actors = make([]kernel.ActorInfo, len(in.Actors))
	for i, w := range in.Actors {
		a, err := w.actor()
		if err != nil {
			return err
		}
		t.Actors[i] = a
	}
	t.Crashes = nil
	for _, w := range in.Crashes {
		c, err := w.crash()
		if err != nil {
			return err
		}
		t.Crashes = append(t.Crashes, c)
	}
	return nil
}

func (w actorWire) actor() (kernel.ActorInfo, error) {
	a := w.ActorInfo
	for _, e := range w.Effects {
		phase, err := word[kernel.EffectPhase](e.Phase, kernel.EffectDropped)
		if err != nil {
			return a, err
		}
		e.EffectInfo.Phase = phase
		a.Effects = append(a.Effects, e.EffectInfo)
	}
	var err error
	a.LastCrash, err = w.LastCrash.crash()
	return a, err
}

func (w *crashWire) crash() (*kernel.CrashReport, error) {
	if w == nil {
		return nil, nil
	}
	decision, err := word[kernel.Decision](w.Decision, kernel.Ended)
	if err != nil {
		return nil, err
	}
	r := w.CrashReport
	r.Decision = decision
	return &r, nil
}

// word finds the value, up to last, that is written as text.
func word[T interface {
	~uint8
	String() string
}](text string, last T) (T, error) {
	for v := range last + 1 {
		if v.String() == text {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%T: unknown value %q: does the agent have another version?", last, text)
}
