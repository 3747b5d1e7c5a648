package chaos

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

// WithStory keeps what happened: Result.Story, for WritePage or a page of your own.
func WithStory() Option {
	return func(r *runner) { r.rec = newRecording() }
}

// recording keeps what happens in a case, for people: what the timelines of the nodes have of each
// pod, and what only a simulation knows. All methods of a nil recording do nothing.
type recording struct {
	lines map[string]*timeline.Recorder // by node
	began time.Time
	// now is the time in the world.
	now func() time.Time
	// entries are those that are of no timeline, with the lanes that they are in.
	entries []laid
	last    map[string]string // what was shown of each pod
}

// laid is an entry in the lane of a pod or a node.
type laid struct {
	report.StoryEntry
	lane string
}

func newRecording() *recording {
	return &recording{lines: map[string]*timeline.Recorder{}, last: map[string]string{}}
}

func (r *recording) begin(now func() time.Time) {
	if r != nil {
		r.began, r.now = now(), now
	}
}

// tracer is the record as the tracer of its world.
func (r *recording) tracer() kernel.Tracer {
	if r == nil {
		return nil // and not an interface that has no recording in it
	}
	return r
}

// line is the timeline of a node.
func (r *recording) line(node string) *timeline.Recorder {
	if r.lines[node] == nil {
		const most = 1000 // entries of a pod, and pods; a page shows fewer
		var err error
		r.lines[node], err = timeline.New(timeline.Config{Node: node, Entries: most, Bytes: 1 << 28, Ended: most, Pods: most})
		if err != nil {
			panic(err) // the bounds are ours
		}
	}
	return r.lines[node]
}

// Deliver implements kernel.Tracer.
func (r *recording) Deliver(at time.Time, path, name string, msg any) {
	r.line(agent.NodeOf(path)).Deliver(at, path, name, msg)
}

// Effect implements kernel.Tracer.
func (r *recording) Effect(at time.Time, path string, phase kernel.EffectPhase, e kernel.EffectInfo) {
	r.line(agent.NodeOf(path)).Effect(at, path, phase, e)
}

// Crash implements kernel.Tracer. The crash of a pod's actor is in the timeline.
func (r *recording) Crash(at time.Time, path string, c *kernel.CrashReport) {
	node := agent.NodeOf(path)
	r.line(node).Crash(at, path, c)
	if c.Kind != "pod" {
		r.add(node, report.StoryEntry{
			Kind: report.StoryCrash, What: c.Kind, Text: fmt.Sprintf("%s: %s: %v", c.Message, c.Reason, c.Decision), Bad: true,
		})
	}
}

// DeadLetter implements kernel.Tracer.
func (r *recording) DeadLetter(time.Time, string, string) {}

// events has the events of a node's pods in the record too.
func (r *recording) events(node string, next port.Recorder) port.Recorder {
	if r == nil {
		return next
	}
	return r.line(node).Events(next)
}

func (r *recording) add(lane string, e report.StoryEntry) {
	if r != nil {
		e.At = r.now().Sub(r.began)
		r.entries = append(r.entries, laid{e, lane})
	}
}

// operation is one that is done now, fault one that strikes now.
func (r *recording) operation(node string, o *plan.Op) {
	if r != nil {
		what := *o
		what.When = plan.When{}
		r.add(laneOf(o.Role.Pod, node), report.StoryEntry{Kind: report.StoryOperation, Text: what.String()})
	}
}

func (r *recording) fault(node string, f *plan.Fault) {
	if r != nil {
		r.add(laneOf(f.Role.Pod, node), report.StoryEntry{Kind: report.StoryFault, Text: f.String()[len("fault "):]})
	}
}

func laneOf(pod, node string) string {
	if pod == "" {
		return node
	}
	return pod
}

// broke is where a rule was broken.
func (r *recording) broke(pod, node string, v invariants.Violation) {
	r.add(laneOf(pod, node), report.StoryEntry{Kind: report.StoryBroke, What: v.ID, Text: v.What, Bad: true})
}

// started is the start of an agent.
func (r *recording) started(node string) {
	r.add(node, report.StoryEntry{Kind: report.StoryRuntime, Text: "the agent starts"})
}

// changed is a change in the runtime.
func (r *recording) changed(pod string, t *simcri.Transition) {
	if r == nil {
		return
	}
	what := "sandbox"
	if t.Container != "" {
		what = fmt.Sprintf("%s #%d", t.Container, t.Attempt)
	}
	text := t.Kind.String()
	if t.Container != "" && t.Kind == observed.ContainerStoppedEvent {
		text = fmt.Sprintf("ended with code %d, %s", t.ExitCode, t.Cause)
	}
	r.add(pod, report.StoryEntry{Kind: report.StoryRuntime, What: what, Text: text})
}

// shown is a version of a pod in the API, if it says something new.
func (r *recording) shown(pod string, p *v1.Pod, gone bool) {
	if r == nil {
		return
	}
	text := "gone"
	if !gone {
		var notes []string
		if p.DeletionTimestamp != nil {
			notes = append(notes, "terminating")
		}
		text = podstatus.Line(&p.Status, notes...)
	}
	if r.last[pod] != text {
		r.last[pod] = text
		r.add(pod, report.StoryEntry{Kind: report.StoryShown, Text: text})
	}
}

// story puts all together: a lane for each node, then one for each pod.
func (r *recording) story(nodes []string, names map[types.UID]string, standalone bool) *report.Story {
	if r == nil {
		return nil
	}
	all := slices.Clone(r.entries)
	var uids []types.UID
	pods := map[string]bool{}
	for uid, name := range names { // order-free: sorted below
		uids = append(uids, uid)
		pods[name] = true
	}
	slices.Sort(uids)
	for _, node := range sorted(r.lines) {
		for _, uid := range uids {
			if view, err := r.lines[node].Story(string(uid)); err == nil {
				all = append(all, r.told(names[uid], &view, standalone)...)
			}
		}
	}
	for _, e := range all {
		if !slices.Contains(nodes, e.lane) {
			pods[e.lane] = true
		}
	}
	s := &report.Story{Nodes: len(nodes), Lanes: slices.Concat(nodes, sorted(pods))}
	for _, e := range all {
		e.Lane = slices.Index(s.Lanes, e.lane)
		s.Entries = append(s.Entries, e.StoryEntry)
	}
	s.Sort()
	return s
}

// kinds are those of timelines. A status is what the API shows where there is no API.
var kinds = map[string]report.StoryKind{
	timeline.Message.String(): report.StoryMessage, timeline.Call.String(): report.StoryCall,
	timeline.Event.String(): report.StoryEvent, timeline.Status.String(): report.StoryMessage,
	timeline.Crash.String(): report.StoryCrash,
}

// told is what a timeline says of a pod.
func (r *recording) told(lane string, v *timeline.View, standalone bool) (out []laid) {
	for i, e := range v.Entries {
		s := report.StoryEntry{At: e.At.Sub(r.began), Took: e.Took, Kind: kinds[e.Kind], What: e.What, Text: e.Text,
			Count: int(e.Count), Bad: e.Bad}
		switch {
		case e.Kind == timeline.Status.String() && standalone:
			s.Kind, s.What = report.StoryShown, ""
		case e.Kind == timeline.Status.String():
			s.What = "reported"
		case e.Kind == timeline.Call.String() && e.Phase != kernel.EffectFinished.String():
			s.Text += " (" + e.Phase + ")"
		}
		if e.Object != "" {
			s.What += " " + e.Object
		}
		out = append(out, laid{s, lane})
		if v.Dropped > 0 && i+1 == v.DroppedAfter {
			out = append(out, laid{report.StoryEntry{At: s.At, Kind: report.StoryEvent,
				Text: fmt.Sprintf("%d entries of this pod were left out here", v.Dropped)}, lane})
		}
	}
	return out
}
