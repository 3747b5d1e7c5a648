package containerlogs

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

var id = strings.Repeat("0123456789abcdef", 4)

func TestName(t *testing.T) {
	long := func(n int) string { return strings.Repeat("p", n) }
	for _, c := range []struct {
		what, namespace, pod, container, want string
	}{
		{"as people know it", "default", "web", "app", "web_default_app-" + id + ".log"},
		{"dots in the name of a static pod", "kube-system", "etcd-n1.example.org", "etcd", "etcd-n1.example.org_kube-system_etcd-" + id + ".log"},
		{"just short enough", "ns", long(181), "c", long(181) + "_ns_c-" + id + ".log"},
		{"a byte too long", "ns", long(182), "c", long(182) + "_ns_c-" + id[:63] + ".log"},
		{"no room for the ID", "ns", long(246), "c", long(246) + "_ns_c.log"},
		{"no room for the container", "ns", long(253), "c", long(251) + ".log"},
	} {
		got := LinkName(c.namespace, c.pod, c.container, id)
		if got != c.want || len(got) > 255 {
			t.Errorf("%s: %d bytes: %s, want %s", c.what, len(got), got, c.want)
		}
	}
}

const (
	own   = "/var/log/pods"
	other = "/srv/logs"
)

func target(root, attempt string) string { return root + "/default_web_u1/app/" + attempt + ".log" }

// TestPlanOfOne: one entry of the directory, and what becomes of it.
func TestPlanOfOne(t *testing.T) {
	name := LinkName("default", "web", "app", id)
	want := Link{Name: name, Target: target(own, "3"), Attempt: 3}
	alive := LinkEntry{Name: name, Target: want.Target, Left: LeftLog, Age: time.Hour}
	foreign := LinkEntry{Name: LinkName("default", "web", "app", "another"), Target: target(other, "0"), Left: LeftNothing}
	keep, remove := LinkOutput{}, func(e LinkEntry) LinkOutput { return LinkOutput{Remove: []LinkEntry{e}} }
	wanted := []Link{want}
	for _, c := range []struct {
		what   string
		want   []Link
		base   LinkEntry
		change func(*LinkEntry)
		out    func(LinkEntry) LinkOutput
	}{
		{"as it is to be", wanted, alive, nil, nil},
		{"of a container that was not started", wanted, alive, func(e *LinkEntry) { e.Left = LeftPod }, nil},
		{"in the middle of a rotation", wanted, alive, func(e *LinkEntry) { e.Left = LeftRotated }, nil},
		{"of a container whose logs somebody removed", wanted, alive, func(e *LinkEntry) { e.Left = LeftNothing }, nil},
		{"of the incarnation before", wanted, alive, func(e *LinkEntry) { e.Target = target(own, "2") }, func(LinkEntry) LinkOutput { return LinkOutput{Replace: wanted} }},
		{"of the incarnation after", wanted, alive, func(e *LinkEntry) { e.Target = target(own, "4") }, func(LinkEntry) LinkOutput { return LinkOutput{Taken: wanted} }},
		{"to where the logs were before", wanted, alive, func(e *LinkEntry) { e.Target, e.Left = target(other, "3"), LeftNothing }, func(LinkEntry) LinkOutput { return LinkOutput{Replace: wanted} }},
		{"to another log", wanted, alive, func(e *LinkEntry) { e.Target = target(other, "3") }, func(LinkEntry) LinkOutput { return LinkOutput{Taken: wanted} }},
		{"a file in its place", wanted, alive, func(e *LinkEntry) { e.Target = "" }, func(LinkEntry) LinkOutput { return LinkOutput{Taken: wanted} }},

		{"of no container, but there is a log", nil, alive, nil, nil},
		{"of no container, and its pod is gone", nil, alive, func(e *LinkEntry) { e.Left = LeftNothing }, remove},
		{"of no container, and its pod is gone since a moment", nil, alive, func(e *LinkEntry) { e.Left, e.Age = LeftNothing, 0 }, remove},
		{"of no container, and its log is gone", nil, alive, func(e *LinkEntry) { e.Left = LeftPod }, remove},
		{"of a container that may be made just now", nil, alive, func(e *LinkEntry) { e.Left, e.Age = LeftPod, time.Second }, nil},
		{"of no container, with rotated logs", nil, alive, func(e *LinkEntry) { e.Left = LeftRotated }, nil},
		{"the clock was set back", nil, alive, func(e *LinkEntry) { e.Left, e.Age = LeftPod, -time.Hour }, nil},

		{"another agent's, dead", nil, foreign, nil, remove},
		{"another agent's, to be started", nil, foreign, func(e *LinkEntry) { e.Left, e.Age = LeftPod, time.Hour }, nil},
		{"another agent's, alive", nil, foreign, func(e *LinkEntry) { e.Left = LeftLog }, nil},
		{"a file", nil, foreign, func(e *LinkEntry) { e.Target = "" }, nil},
		{"of another form", nil, foreign, func(e *LinkEntry) { e.Name = "notes.log" }, nil},
		{"of another container", nil, foreign, func(e *LinkEntry) { e.Name = LinkName("default", "web", "side", id) }, nil},
		{"to something else", nil, foreign, func(e *LinkEntry) { e.Target = "/var/log/syslog" }, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			e, want := c.base, keep
			if c.change != nil {
				c.change(&e)
			}
			if c.out != nil {
				want = c.out(e)
			}
			check.Deep(t, PlanLinks([]LinkEntry{e}, c.want, own), want, "%+v\ngot", e)
		})
	}
}

// TestPlanOfMissing: each link once, in order; of names that were cut to the same,
// that of the newest incarnation.
func TestPlanOfMissing(t *testing.T) {
	a := Link{Name: "a.log", Target: "/l/n_a_1/c/0.log"}
	first := Link{Name: "cut.log", Target: "/l/n_b_1/c/1.log", Attempt: 1}
	second := Link{Name: "cut.log", Target: "/l/n_b_1/c/2.log", Attempt: 2}
	stranger := Link{Name: "cut.log", Target: "/l/n_c_1/c/7.log", Attempt: 7}
	got := PlanLinks(nil, []Link{first, a, second, stranger}, own)
	check.Deep(t, got, (LinkOutput{Make: []Link{a, second}}), "got")
	check.Deep(t, PlanLinks([]LinkEntry{{Name: "a.log", Target: a.Target}}, []Link{a}, own), LinkOutput{}, "it")
}

func TestLeads(t *testing.T) {
	long := strings.Repeat("p", 253)
	for _, c := range []struct {
		name, target string
		want         bool
	}{
		{LinkName("default", "web", "app", id), target(own, "0"), true},
		{LinkName("default", "web", "app", id), target("/any/where", "17"), true},
		{LinkName("default", "etcd-n1.example.org", "app", id), "/l/default_etcd-n1.example.org_0123/app/0.log", true},
		{LinkName("default", long, "app", id), "/l/default_" + long + "_u/app/0.log", true},
		{LinkName("default", long[:200], "app", id), "/l/default_" + long[:200] + "_u/app/0.log", true},
		{LinkName("default", long[:200], "app", id), "/l/default_" + long[:201] + "_u/app/0.log", false},
		{"web_default_app-.log", target(own, "0"), false},
		{"web_default_app-" + id, target(own, "0"), false},
		{"web_default_app-" + id[:9] + "/x.log", target(own, "0"), false},
		{"web_default_side-" + id + ".log", target(own, "0"), false},
		{LinkName("default", "web", "app", id), target(own, "0") + ".20261121-100000", false},
		{LinkName("default", "web", "app", id), "default_web_u1/app/0.log", false},
		{LinkName("default", "web", "app", id), own + "/../pods/default_web_u1/app/0.log", false},
		{LinkName("default", "web", "app", id), "/default_web_u1/app.log", false},
		{LinkName("default", "web", "app", id), own + "/default_web_/app/0.log", false},
		{LinkName("default", "web", "app", id), "", false},
	} {
		check.Equal(t, LinkLeads(c.name, c.target), c.want, "%s -> %s", c.name, c.target)
	}
}
