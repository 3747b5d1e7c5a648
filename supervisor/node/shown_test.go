package node

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/whynot"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
)

// TestCallsOfPods: those of a pod's own actor, those of others that say for whom,
// and pulls for all that wait for the image.
func TestCallsOfPods(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	waiting := []podview.Container{{State: "waiting", Image: "app:1"}, {State: "waiting", Image: "app:1"}}
	one, two := podview.Pod{UID: "uid-1", Containers: waiting}, podview.Pod{UID: "uid-2", Containers: waiting}
	ran := podview.Pod{UID: "uid-3", Containers: []podview.Container{{State: "running", Image: "app:1"}}}
	got := map[types.UID][]whynot.Call{}
	for uid, all := range podview.CallsOf([]kernel.ActorInfo{
		{Path: "n/images", Kind: "images", Effects: []kernel.EffectInfo{
			{Kind: "PullImage", Object: "app:1", Phase: kernel.EffectStarted, Since: now, Patience: time.Minute}, {Kind: "PullImage", Object: "other"},
		}},
		{Path: "n/pleg", Kind: "pleg", Effects: []kernel.EffectInfo{{Kind: "Events", Standing: true}}},
		{Path: "n/pods/uid-1", Kind: "pod", Effects: []kernel.EffectInfo{{Kind: "RunPodSandbox", Phase: kernel.EffectQueued}}},
		{Path: "n/probes", Kind: "probes", Effects: []kernel.EffectInfo{{Kind: "ExecProbe", For: "uid-3", Phase: kernel.EffectStarted}}},
		{Path: "n/volumes", Kind: "volumes", Effects: []kernel.EffectInfo{{Kind: "MountVolume", For: "uid-2", Phase: kernel.EffectExpired}}},
	}, []podview.Pod{one, two, ran}) {
		got[uid] = calls(all)
	}
	pull := whynot.Call{What: "PullImage", Object: "app:1", Since: now, Patience: time.Minute}
	want := map[types.UID][]whynot.Call{
		"uid-1": {pull, {What: "RunPodSandbox", Queued: true}},
		"uid-2": {pull, {What: "MountVolume", Overdue: true}},
		"uid-3": {{What: "ExecProbe", Probe: true}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestWhyIsAskedWithAllThatIsKnown follows a pod's view into the decision.
func TestWhyIsAskedWithAllThatIsKnown(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	ended := now.Add(-20 * time.Second)
	p := podview.Pod{Life: "Syncing", Phase: "Running", Containers: []podview.Container{{
		Name: "app", Kind: "main", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 3,
		Last: &podview.End{ExitCode: 137, Reason: "OOMKilled", FinishedAt: &ended},
	}}}
	a := whynot.Explain(why(now, &podview.View{}, &p, nil, nil))
	if want := `Container "app" is in a crash loop and waits for the end of its restart backoff: its last run terminated with exit code 137 (OOMKilled) 20s ago.`; a.Text != want {
		t.Errorf("got %q, want %q", a.Text, want)
	}
	waits := podview.Pod{Life: "Syncing", Phase: "Pending", Containers: []podview.Container{{
		Name: "app", Kind: "main", State: "waiting", Reason: "ContainerCreating", Message: "no driver", Gate: gate.Claims,
	}}}
	a = whynot.Explain(why(now, &podview.View{}, &waits, nil, nil))
	if want := "The resource claims of the pod are not prepared: no driver."; a.Text != want {
		t.Errorf("got %q, want %q", a.Text, want)
	}
	a = whynot.Explain(why(now, &podview.View{Runtime: &podview.Runtime{Since: ended, Message: "gone"}}, &p, nil, nil))
	if want := "The container runtime has not answered for 20s: gone."; a.Text != want {
		t.Errorf("got %q, want %q", a.Text, want)
	}
}
