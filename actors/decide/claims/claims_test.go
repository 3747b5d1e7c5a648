package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// podWith is a pod with a claim of its own (gpu), one from a template (net), and a container for each change.
func podWith(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-1"}}
	p.Spec.ResourceClaims = []v1.PodResourceClaim{
		{Name: "gpu", ResourceClaimName: new("shared")}, {Name: "net", ResourceClaimTemplateName: new("fast")},
	}
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "net", ResourceClaimName: new("p-net-x7")}}
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"both":      {func(*v1.Pod) {}, "[{shared gpu false} {p-net-x7 net true}]"},
		"none":      {func(p *v1.Pod) { p.Spec.ResourceClaims = nil }, "[]"},
		"one twice": {func(p *v1.Pod) { p.Spec.ResourceClaims[1].ResourceClaimName = new("shared") }, "[{shared gpu false}]"},
		"not made": {func(p *v1.Pod) { p.Status.ResourceClaimStatuses = nil }, `spec.resourceClaims: claim "net": its ` +
			`ResourceClaim was not made from ResourceClaimTemplate "fast" yet: kube-controller-manager makes it`},
		"nothing needed": {func(p *v1.Pod) { p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil },
			"[{shared gpu false}]"},
		"extended": {func(p *v1.Pod) {
			p.Spec.ResourceClaims = nil
			p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-ext"}
		}, "[{p-ext  true}]"},
	} {
		needs, err := Needs(podWith(c.change))
		got := fmt.Sprint(needs)
		if err != nil {
			got = err.Error()
		}
		check.Equal(t, got, c.want, "%s: got", name)
	}
}

func TestSame(t *testing.T) {
	made := podWith()
	yet := podWith(func(p *v1.Pod) { p.Status.ResourceClaimStatuses = nil })
	other := podWith(func(p *v1.Pod) { p.Status.ResourceClaimStatuses[0].ResourceClaimName = new("another") })
	if !Same(made, podWith()) || !Same(yet, yet.DeepCopy()) || Same(made, yet) || Same(yet, made) || Same(made, other) {
		t.Error("pods differ by the claims that were made for them")
	}
}

func TestCheck(t *testing.T) {
	of := func(change func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{UID: "p-1", Controller: new(true)},
		}}}
		c.Status.Allocation = &resourcev1.AllocationResult{}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{UID: "p-0"}, {UID: "p-1"}}
		change(c)
		return c
	}
	stranger := func(c *resourcev1.ResourceClaim) { c.OwnerReferences = nil }
	for name, c := range map[string]struct {
		owned  bool
		change func(*resourcev1.ResourceClaim)
		want   string
	}{
		"fine":           {true, func(*resourcev1.ResourceClaim) {}, ""},
		"a stranger's":   {true, stranger, "was not made for this pod"},
		"anybody's":      {false, stranger, ""},
		"not allocated":  {true, func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }, "is not allocated"},
		"not reserved":   {true, func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }, "is not reserved"},
		"for one before": {true, func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[1].UID = "x" }, "is not reserved"},
	} {
		err := Check(podWith(), Need{Name: "c", Owned: c.owned}, of(c.change))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestDrivers(t *testing.T) {
	c := &resourcev1.ResourceClaim{}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range []string{"b", "a", "b"} {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: d})
	}
	check.Same(t, Drivers(c), []string{"a", "b"}, "got")
}

func TestDevices(t *testing.T) {
	claim := map[string]*Claim{
		"shared": {Name: "shared", Drivers: map[string][]Device{
			"b": {{Requests: []string{"one/large"}, CDI: []string{"b=1"}}, {CDI: []string{"b=2"}}},
			"a": {{Requests: []string{"two"}, CDI: []string{"a=1", "b=2"}}},
		}},
		"p-net-x7": {Name: "p-net-x7", Drivers: map[string][]Device{"c": {{CDI: []string{"c=1"}}}}},
		"p-ext": {Name: "p-ext", Drivers: map[string][]Device{"e": {
			{Requests: []string{"container-0-request-0"}, CDI: []string{"e=1"}},
			{Requests: []string{"container-1-request-0"}, CDI: []string{"e=2"}},
		}}},
	}
	of := func(name string) *Claim { return claim[name] }
	use := func(uses ...v1.ResourceClaim) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Claims = uses }
	}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"none":           {use(), "[]"},
		"all requests":   {use(v1.ResourceClaim{Name: "gpu"}), "[a=1 b=2 b=1]"},
		"one request":    {use(v1.ResourceClaim{Name: "gpu", Request: "two"}), "[a=1 b=2]"},
		"subrequests":    {use(v1.ResourceClaim{Name: "gpu", Request: "one"}), "[b=1 b=2]"},
		"one subrequest": {use(v1.ResourceClaim{Name: "gpu", Request: "one/large"}), "[b=1 b=2]"},
		"two claims":     {use(v1.ResourceClaim{Name: "net"}, v1.ResourceClaim{Name: "gpu", Request: "one"}), "[c=1 b=1 b=2]"},
		"unknown":        {use(v1.ResourceClaim{Name: "x"}), "[]"},
		"no claim": {func(p *v1.Pod) {
			use(v1.ResourceClaim{Name: "net"})(p)
			p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
		}, "[]"},
		"extended": {func(p *v1.Pod) {
			p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
				ResourceClaimName: "p-ext", RequestMappings: []v1.ContainerExtendedResourceRequest{
					{ContainerName: "app", RequestName: "container-0-request-0"},
					{ContainerName: "other", RequestName: "container-1-request-0"},
				},
			}
		}, "[e=1]"},
	} {
		check.Equal(t, fmt.Sprint(Devices(podWith(c.change), of)["app"]), c.want, "%s: got", name)
	}
}

// TestHealth: what the status of a container says of devices of claims.
func TestHealth(t *testing.T) {
	claim := map[string]*Claim{
		"shared": {Name: "shared", Drivers: map[string][]Device{
			"b": {{Pool: "n", Name: "1", Requests: []string{"one"}, CDI: []string{"b=1"}}, {Pool: "n", Name: "2"}},
			"a": {{Pool: "n", Name: "3", Requests: []string{"two"}, CDI: []string{"b=1"}}},
		}},
		"p-net-x7": {Name: "p-net-x7", Drivers: map[string][]Device{"c": {{Pool: "n", Name: "soon"}}}},
	}
	now := time.Unix(1000, 0)
	reports := Reports{}
	reports.Add(now, []Report{
		{Pool: "n", Device: "1", Health: v1.ResourceHealthStatusHealthy, For: time.Minute},
		{Pool: "n", Device: "2", Health: v1.ResourceHealthStatusUnhealthy, Message: "hot", For: time.Second},
	})
	if next := reports.Next(now); !next.Equal(now.Add(time.Second)) {
		t.Errorf("the first is over at %v", next)
	}
	uses := func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{
			{Name: "gpu"}, {Name: "gpu", Request: "one"}, {Name: "net"}, {Name: "x"},
		}
	}
	health := func(at time.Time) string {
		got := Health(podWith(uses), func(name string) *Claim { return claim[name] },
			func(_, pool, device string) Report {
				if device == "soon" {
					return Report{}
				}
				return reports.Of(at, pool, device)
			})
		var out []string
		for _, s := range got["app"] {
			text := string(s.Name)
			for _, r := range s.Resources {
				text += fmt.Sprintf(" %s=%s", r.ResourceID, r.Health)
				if r.Message != nil {
					text += "(" + *r.Message + ")"
				}
			}
			out = append(out, text)
		}
		return strings.Join(out, ", ")
	}
	if got, want := health(now), "claim:gpu b/n/2=Unhealthy(hot) b=1=Unknown, claim:gpu/one b/n/2=Unhealthy(hot) b=1=Healthy"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	now = now.Add(time.Second)
	reports.Add(now, nil)
	if got, want := health(now), "claim:gpu b/n/2=Unknown b=1=Unknown, claim:gpu/one b/n/2=Unknown b=1=Healthy"; got != want {
		t.Errorf("later: got %s, want %s", got, want)
	}
	if next := reports.Next(now.Add(time.Hour)); len(reports) != 1 || !next.IsZero() {
		t.Errorf("left are %v, the next is over at %v", reports, next)
	}
}

// TestPreparedLife is any history of a claim: the last pod stays on record until all drivers have unprepared it, and
// nobody gets devices of one that leaves.
func TestPreparedLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := new(Fresh(Object{UID: "c"}, []string{"a", "b"}))
		p.Join("p0")
		if rapid.Bool().Draw(t, "found") {
			p = new(FoundAs(&p.Claim))
		}
		in := map[types.UID]bool{"p0": true}
		uid := rapid.SampledFrom([]types.UID{"p0", "p1", "p2"})
		driver := rapid.SampledFrom([]string{"a", "b"})
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if u := uid.Draw(t, "uid"); !p.Leaving {
					p.Join(u)
					in[u] = true
				}
			},
			"leave": func(t *rapid.T) {
				u := uid.Draw(t, "uid")
				p.Leave(u)
				if delete(in, u); p.Leaving {
					in = nil
				} else if in == nil {
					t.Fatal("it came back")
				}
			},
			"prepare": func(t *rapid.T) {
				if d := driver.Draw(t, "driver"); !p.Leaving {
					p.Prepare(d, []Device{{Name: d}})
				}
			},
			"renew": func(*rapid.T) { p.Renew() },
			"": func(t *rapid.T) {
				switch {
				case len(p.Pods) == 0:
					t.Fatal("nobody is on record")
				case p.Leaving && (p.Usable(true) || p.Usable(false)):
					t.Fatal("it is used while it leaves")
				case !p.Leaving && len(p.Pods) != len(in):
					t.Fatalf("%v use it, and %v are on record", in, p.Pods)
				case !p.Leaving && len(in) > 0 && !p.UsedBy(slices.Sorted(maps.Keys(in))[0]):
					t.Fatal("a pod is not on record")
				case p.All() && (p.Wants("a") || p.Wants("b")):
					t.Fatal("something is to be done when all is done")
				case p.All() != (len(p.Waits()) == 0):
					t.Fatalf("it waits for %v", p.Waits())
				}
			},
		})
	})
}

// TestBatch: a batch has tasks of one kind, the one that waits longest among them, and one that may be why a call failed
// is alone.
func TestBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 2*MaxBatch).Draw(t, "n")
		tasks := make([]Task, n)
		for i := range tasks {
			tasks[i] = Task{
				Object: Object{types.UID(fmt.Sprint(i)), "ns", fmt.Sprint(i)}, Unprepare: rapid.Bool().Draw(t, "unprepare"),
				Alone: rapid.Bool().Draw(t, "alone"), Tried: time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "tried")), 0),
			}
		}
		got := Batch(tasks)
		if len(got) > MaxBatch || len(got) == 0 && n > 0 {
			t.Fatalf("it has %d", len(got))
		}
		oldest := false
		for _, one := range got {
			if one.Unprepare != got[0].Unprepare || one.Alone && len(got) > 1 {
				t.Fatalf("%+v are not for one call", got)
			}
			oldest = oldest || !slices.ContainsFunc(tasks, func(o Task) bool { return o.Tried.Before(one.Tried) })
		}
		if n > 0 && !oldest {
			t.Fatalf("others than %+v wait longer", got)
		}
	})
}

func TestVerdict(t *testing.T) {
	o := Object{UID: "c", Namespace: "ns", Name: "gpu"}
	for _, c := range []struct {
		answers map[types.UID]Answer
		want    string
	}{
		{map[types.UID]Answer{"c": {}}, ""},
		{map[types.UID]Answer{"c": {Error: "busy"}}, `DRA driver d: Prepare: ResourceClaim "gpu": busy`},
		{map[types.UID]Answer{"x": {}}, `DRA driver d: Prepare: no answer for ResourceClaim "gpu"`},
	} {
		check.Equal(t, Verdict("d", "Prepare", o, c.answers), c.want, "got")
	}
}

func TestPod(t *testing.T) {
	var none *Pod
	if !none.Is(Unasked) || none.Has() || none.Of("app") != nil || none.Trouble() != "" {
		t.Error("a pod of which nothing is known is not asked yet")
	}
	for s := Unasked; s <= Released; s++ {
		p := &Pod{State: s, Message: "why", CDI: map[string][]string{"app": {"a=1"}}}
		if has := s == Known || s == Ready; !p.Is(s) || p.Has() != has || p.Trouble() != "why" || len(p.Of("app")) != 1 {
			t.Errorf("%s: %+v", s, p)
		}
	}
	if !Uses(podWith()) || Uses(&v1.Pod{}) {
		t.Error("Uses")
	}
}

func TestWithoutBacked(t *testing.T) {
	p := podWith(func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/gpu": resource.MustParse("1"), "cpu": {}}
	})
	if WithoutBacked(p) != p {
		t.Error("a pod without such resources is copied")
	}
	p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
		RequestMappings: []v1.ContainerExtendedResourceRequest{{ContainerName: "app", ResourceName: "example.com/gpu"}},
	}
	got := WithoutBacked(p)
	if l := got.Spec.Containers[0].Resources.Limits; len(l) != 1 || len(p.Spec.Containers[0].Resources.Limits) != 2 {
		t.Errorf("left are %v of %v", l, p.Spec.Containers[0].Resources.Limits)
	}
}

// TestMaxReports: a driver that makes names up does not fill the memory; what is known keeps up to date.
func TestMaxReports(t *testing.T) {
	r, now := Reports{}, time.Unix(1000, 0)
	r.Add(now, []Report{{Pool: "n", Device: "real", Health: v1.ResourceHealthStatusHealthy, For: time.Minute}})
	var more []Report
	for i := range 2 * MaxReports {
		more = append(more, Report{Pool: "n", Device: fmt.Sprint(i), For: time.Second})
	}
	r.Add(now, more)
	r.Add(now, []Report{{Pool: "n", Device: "real", Health: v1.ResourceHealthStatusUnhealthy, For: time.Minute}})
	if got := r.Of(now, "n", "real"); len(r) != MaxReports || got.Health != v1.ResourceHealthStatusUnhealthy {
		t.Errorf("%d reports are kept; the device is %s", len(r), got.Health)
	}
	now = now.Add(time.Second)
	r.Add(now, []Report{{Pool: "n", Device: "new", Health: v1.ResourceHealthStatusHealthy, For: time.Minute}})
	if got := r.Of(now, "n", "new"); len(r) != 2 || got.Health != v1.ResourceHealthStatusHealthy {
		t.Errorf("when others do not count any more, %d are kept, and the new one is %s", len(r), got.Health)
	}
}
