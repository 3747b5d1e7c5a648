package arch

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// edge is an import that must not be: a package at or below From imports one at or below To.
// Imports point one way: decide ← actors ← supervisor ← cmd, tests; cri and apiclient implement
// interfaces that actors declare.
type edge struct {
	From, To string
	Why      string
	Except   []string // packages at or below which it may be after all
	But      []string // packages at or below To that From may import
}

// ours is a package of the module, as the rules name it.
func ours(path string) string { return module + "/" + path }

// notActors are the packages below actors that are no actors and that an adapter needs.
var notActors = []string{ours("actors/decide"), ours("actors/port"), ours("actors/rescue")}

const whyResolved = "what follows from the objects of a pod is resolved once, by the pod's actor: a request carries the result"

const whyNoActor = "a server gets functions from the daemon: one that knew an actor could not be tested or used without it"

var forbidden = []edge{
	{From: ours("actors"), To: ours("cri"),
		Why: "actors declare the runtime port and cri implements it: an actor must not know in which world it runs"},
	{From: ours("actors"), To: ours("apiclient"),
		Why: "actors declare the API port and apiclient implements it: an actor must not know in which world it runs"},
	{From: ours("actors"), To: ours("supervisor"),
		Why: "the supervisor composes actors; one that knew its composition could not be composed otherwise"},
	{From: ours("actors/decide"), To: ours("actors/kernel"),
		Why: "a decision is a function of values: no actor, clock or effect is within its reach"},
	{From: module, To: "github.com/asynkron/protoactor-go", Except: []string{ours("actors/kernel")},
		Why: "only the kernel touches protoactor: whatever else did would bring its real time and goroutines into a replay"},
	{From: ours("cri"), To: ours("apiclient"),
		Why: "the world below and the world above meet in the actors alone"},
	{From: ours("cri"), To: ours("actors/decide/podobjects"), Why: whyResolved},
	{From: ours("actors/port"), To: ours("actors/decide/podobjects"), Why: whyResolved},
	{From: ours("apiclient"), To: ours("cri"),
		Why: "the world below and the world above meet in the actors alone"},
	{From: ours("cri"), To: ours("supervisor"),
		Why: "an adapter is composed, it does not compose"},
	{From: ours("apiclient"), To: ours("supervisor"), But: []string{ours("supervisor/host/disk/durable")},
		Why: "an adapter is composed, it does not compose"},
	{From: ours("supervisor/serve"), To: ours("actors"), But: notActors, Why: whyNoActor},
	{From: ours("supervisor/podresources"), To: ours("actors"), But: notActors, Why: whyNoActor},
	{From: ours("supervisor/host"), To: ours("actors"), But: notActors,
		Why: "the machine stands behind ports: what knew an actor could not be replaced by a simulated one"},
	{From: ours("supervisor/serve"), To: ours("cri"),
		Why: "the servers use the runtime through a port, or through functions that the daemon gives them"},
	{From: module, To: ours("cmd"), Except: []string{ours("cmd")},
		Why: "a command is a thin main: what others want of it belongs below it"},
	{From: module, To: ours("tests"), Except: []string{ours("tests")},
		Why: "the product does not depend on what tests it"},
	{From: module, To: ours("actors/decide/podplan"), Except: []string{ours("actors/pod"), ours("actors/decide/podstatus")},
		Why: "the planner is for who performs its plan and who shows it: a fact's type belongs to the package that decides about the fact"},
	{From: ours("actors/pods"), To: module,
		But: []string{ours("actors/kernel"), ours("actors/pod"), ours("actors/pleg"), ours("actors/decide/observed")},
		Why: "a panic in the parent of the actors of pods stops them all: it starts and stops them, and decides nothing"},
	{From: module, To: "k8s.io/kubernetes", Except: []string{ours("tests")},
		Why: "our own code decides; only tests compare it with Kubernetes'"},
}

// decideMayImport is all that decisions may import besides the standard library.
var decideMayImport = []string{
	"k8s.io/api", "k8s.io/apimachinery", "k8s.io/utils", "k8s.io/kubelet", "sigs.k8s.io/yaml",
	"github.com/distribution/reference", // the grammar of image names
	"k8s.io/csi-translation-lib",        // which CSI volume stands for one of another kind
	"google.golang.org/protobuf/proto",  // the encoding of the device plugin API, in a checkpoint
	ours("actors/decide"), ours("actors/smallmap"),
}

// decideMustNot names packages of the standard library by what makes them impure.
var decideMustNot = map[string]string{
	"crypto/rand":  "randomness is an argument, or a run does not replay",
	"log":          "a decision returns what it found, the shell logs it",
	"log/slog":     "a decision returns what it found, the shell logs it",
	"math/rand":    "randomness is an argument, or a run does not replay",
	"math/rand/v2": "randomness is an argument, or a run does not replay",
	"net":          "a decision does no I/O; net/netip has addresses",
	"net/http":     "a decision does no I/O",
	"os":           "a decision does no I/O",
	"os/exec":      "a decision does no I/O",
	"os/signal":    "a decision does no I/O",
	"sync":         "a decision has no goroutines to keep apart",
	"sync/atomic":  "a decision has no goroutines to keep apart",
	"syscall":      "a decision does no I/O",
	"unsafe":       "a decision works on values",
}

// breach says why a package may not import another, or nothing.
func breach(from, to string) string {
	for _, e := range forbidden {
		allowed := slices.ContainsFunc(e.Except, func(x string) bool { return within(from, x) }) ||
			slices.ContainsFunc(e.But, func(x string) bool { return within(to, x) })
		if within(from, e.From) && within(to, e.To) && !allowed {
			return e.Why
		}
	}
	if why := hostBreach(from, to); why != "" {
		return why
	}
	if !within(from, ours("actors/decide")) {
		return ""
	}
	if why, ok := decideMustNot[to]; ok {
		return why
	}
	first, _, _ := strings.Cut(to, "/")
	standard := !strings.Contains(first, ".")
	if standard || slices.ContainsFunc(decideMayImport, func(x string) bool { return within(to, x) }) {
		return ""
	}
	return "decisions know only the standard library and the types of the Kubernetes API"
}

// hostBreach holds the map of the host (docs/decisions/0121).
func hostBreach(from, to string) string {
	const host = module + "/supervisor/host"
	if to == host && within(from, host) {
		return "host puts the rooms together: a room that knew it could not be used without the others"
	}
	room := func(path string) string {
		rest, is := strings.CutPrefix(path, host+"/plugin/")
		first, _, _ := strings.Cut(rest, "/")
		if !is {
			return ""
		}
		return first
	}
	shared := []string{"registry", "plugintest"} // and what the fakes of their tests have in common
	if f, t := room(from), room(to); f != "" && t != "" && f != t && !slices.Contains(shared, t) {
		return "plugins of different kinds have the registry in common, and nothing else"
	}
	return ""
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		for _, to := range p.Imports {
			check.Equal(t, breach(p.ImportPath, to), "", "%s imports %s", p.ImportPath, to)
		}
	}
}

func TestLayerRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"actors/pod", "cri", false},
		{"actors/pod", "cri/simcri", false},
		{"actors/pod", "actors/kernel", true},
		{"actors/pod", "actors/decide/podplan", true},
		{"actors/decide/podstatus", "actors/decide/podplan", true},
		{"actors/images", "actors/decide/podplan", false},
		{"actors/decide/probe", "actors/decide/podplan", false},
		{"actors/decide/podplan", "actors/kernel", false},
		{"actors/decide/podplan", "actors/port", false},
		{"actors/decide/podplan", "actors/decide/observed", true},
		{"actors/decide/podplan", "os", false},
		{"actors/decide/podplan", "net/netip", true},
		{"actors/decide/podplan", "k8s.io/api/core/v1", true},
		{"actors/decide/podplan", "google.golang.org/grpc", false},
		{"actors/kernel", "github.com/asynkron/protoactor-go/actor", true},
		{"actors/pod", "github.com/asynkron/protoactor-go/actor", false},
		{"supervisor/sim", "github.com/asynkron/protoactor-go/actor", false},
		{"cri/simcri", "apiclient", false},
		{"cri", "actors/port", true},
		{"cri/translate", "actors/decide/containerplan", true},
		{"cri/translate", "actors/decide/podobjects", false},
		{"actors/port", "actors/decide/podobjects", false},
		{"apiclient/kube", "cri", false},
		{"supervisor/serve", "cri", false},
		{"supervisor/serve/streams", "actors/port/answer", true},
		{"supervisor/serve", "actors/pods", false},
		{"actors/pods", "actors/pod", true},
		{"actors/pods", "actors/checkpoint", false},
		{"actors/pods", "actors/decide/admit", false},
		{"supervisor/host/probe/network", "actors/decide/probe", true},
		{"supervisor/host", "actors/kernel", false},
		{"supervisor/host", "supervisor/host/cgroup", true},
		{"supervisor/host/cgroup", "supervisor/host", false},
		{"supervisor/host/plugin/csidrivers", "supervisor/host/plugin/registry", true},
		{"supervisor/host/plugin/csidrivers", "supervisor/host/plugin/deviceplugins", false},
		{"supervisor/host/plugin/dradrivers/drivertest", "supervisor/host/plugin/dradrivers", true},
		{"supervisor/host/plugin/registry", "supervisor/host/plugin/dradrivers", false},
		{"supervisor", "cri", true},
		{"supervisor", "cmd/troupe", false},
		{"cmd/troupe", "supervisor", true},
		{"supervisor", "k8s.io/kubernetes/pkg/kubelet", false},
		{"tests/contract", "k8s.io/kubernetes/pkg/kubelet", true},
		{"supervisor", "tests/contract", false},
	} {
		to := c.to
		switch first, _, _ := strings.Cut(to, "/"); first {
		case "actors", "cri", "apiclient", "supervisor", "cmd", "tests":
			to = ours(to)
		}
		if why := breach(ours(c.from), to); (why == "") != c.want {
			t.Errorf("%s imports %s: allowed is %t, want %t", c.from, c.to, why == "", c.want)
		}
	}
}

func TestEveryRuleHasItsReason(t *testing.T) {
	for _, e := range forbidden {
		if e.Why == "" {
			t.Errorf("%s → %s is forbidden for no reason", e.From, e.To)
		}
	}
}
