package differ

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Difference is a key whose value is not the same on both nodes.
type Difference struct{ Key, Kubelet, Troupe string }

// none is the value of a key that is not there.
const none = "(none)"

func (d Difference) String() string {
	return fmt.Sprintf("%s\n\tkubelet: %s\n\ttroupe:  %s", d.Key, d.Kubelet, d.Troupe)
}

var ofContainer = regexp.MustCompile(`\b(main|second|a-third|init-late|init|sidecar|ephemeral)\b`)

// class is what the difference is about, whichever container has it.
func (d Difference) class() string { return ofContainer.ReplaceAllString(d.Key, "*") }

// secondRun is what a container was made with for the second time, which one node may not have come to yet.
var secondRun = regexp.MustCompile(`^cri/create/[a-z-]+/1(/|$)`)

// compare gives the differences, by key.
func compare(kubelet, troupe keys) (out []Difference) {
	all := maps.Clone(kubelet)
	maps.Copy(all, troupe)
	caught := caughtRunning(kubelet, troupe)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a, inA := kubelet[key]
		b, inB := troupe[key]
		if a == b && inA == inB || caught && ofEnd.MatchString(key) {
			continue
		}
		if secondRun.MatchString(key) && (!inA || !inB) && (lacks(kubelet, key) || lacks(troupe, key)) {
			continue
		}
		if (!inA || !inB) && (byChance(kubelet, key) || byChance(troupe, key)) {
			continue
		}
		if !inA && above(kubelet, troupe, key) || !inB && above(troupe, kubelet, key) {
			continue
		}
		d := Difference{Key: key, Kubelet: a, Troupe: b}
		if !inA {
			d.Kubelet = none
		}
		if !inB {
			d.Troupe = none
		}
		out = append(out, d)
	}
	return out
}

// ofLoop are keys of a container that is made again and again: the log of its first run, which may be gone, and that it was
// stopped, if it just ran when the pod was deleted.
var ofLoop = regexp.MustCompile(`^(?:seen/([a-z-]+)|cri/stop/([a-z-]+)|event/Normal/Killing/.*/Stopping container ([a-z-]+))$`)

// onceReady are those of a pod that was ready for a moment, before a container ended by itself.
var onceReady = regexp.MustCompile(`^history/condition/(ContainersReady|Ready)=True `)

// ofProbe are those of its probes, one of which may have come when it ended.
var ofProbe = regexp.MustCompile(`^(?:cri/exec/([a-z-]+)/.*|event/Warning/Unhealthy/spec\.(?:c|initC)ontainers\{([a-z-]+)\}/.*)$`)

// byChance says whether a key is there or not by when somebody looked.
func byChance(k keys, key string) bool {
	if m := ofLoop.FindStringSubmatch(key); m != nil && k.loops(strings.Join(m[1:], "")) {
		return true
	}
	if m := ofProbe.FindStringSubmatch(key); m != nil {
		code, ended := k.of("status", strings.Join(m[1:], ""), "state/terminated/exitCode")
		return ended && !signaled(code) && k.loops(strings.Join(m[1:], ""))
	}
	return onceReady.MatchString(key) && k.some(`^status/(containerStatuses|initContainerStatuses\[sidecar\]).*/terminated/exitCode`)
}

// loops says whether a container was made again.
func (k keys) loops(container string) bool {
	for _, when := range []string{"status", "end"} {
		if restarts, _ := k.of(when, container, "restartCount"); restarts == "some" {
			return true
		}
	}
	return false
}

// of is what a status says of a container.
func (k keys) of(when, container, path string) (value string, there bool) {
	for _, list := range []string{"containerStatuses", "initContainerStatuses"} {
		if value, there = k[when+"/"+list+"["+container+"]/"+path]; there {
			break
		}
	}
	return value, there
}

// ofEnd are keys of how a pod ended.
var ofEnd = regexp.MustCompile(`^(end/|history/(phases$|container/|condition/(Initialized|ContainersReady|Ready)=))`)

// endCode is the exit code with which a container was shown at last.
var endCode = regexp.MustCompile(`^end(/(?:c|initC)ontainerStatuses\[[a-z-]+\])/state/terminated/exitCode$`)

// caughtRunning says whether a container that is made again and again just ran on one node alone when the pod was deleted, and
// so ended there by a signal, and on the other one by itself.
func caughtRunning(kubelet, troupe keys) bool {
	for key, a := range kubelet { // order-free: any of them
		m, b := endCode.FindStringSubmatch(key), troupe[key]
		if m == nil || signaled(a) == signaled(b) {
			continue
		}
		restarts := "status" + m[1] + "/restartCount"
		if kubelet[restarts] == "some" && troupe[restarts] == "some" {
			return true
		}
	}
	return false
}

// signaled says whether an exit code is that of a process that a signal to end has ended.
func signaled(code string) bool { return code == "143" || code == "137" }

// lacks says whether a container was not made again on a node.
func lacks(k keys, key string) bool {
	_, there := k[strings.Join(strings.SplitN(key, "/", 5)[:4], "/")]
	return !there
}

// above says whether a key that one node lacks is below one that it lacks too: that one says it all.
func above(lacking, having keys, key string) bool {
	for i := strings.LastIndexByte(key, '/'); i > 0; i = strings.LastIndexByte(key[:i], '/') {
		_, has := having[key[:i]]
		_, there := lacking[key[:i]]
		if has && !there {
			return true
		}
	}
	return false
}

// classes are those of differences, in the order of how much they say: what a pod came to before how.
func classes(of []Difference) []string {
	var out []string
	for _, d := range of {
		if !slices.Contains(out, d.class()) {
			out = append(out, d.class())
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return weight(a) - weight(b) })
	return out
}

var weights = []string{"refused", "gone", "left", "status/phase", "status", "end", "history", "cri/sandbox", "cri/create", "cri", "seen", "cgroup", "event"}

func weight(class string) int {
	if i := slices.IndexFunc(weights, func(w string) bool { return strings.HasPrefix(class, w) }); i >= 0 {
		return i
	}
	return len(weights)
}

// unknown are the differences that no line of the docs has.
func unknown(kubelet, troupe keys) []Difference {
	return slices.DeleteFunc(compare(kubelet, troupe), func(d Difference) bool {
		return slices.ContainsFunc(knowns, func(k known) bool { return k.is(d, kubelet, troupe) })
	})
}

// shrink drops features of a case while show says that the smaller one still has the difference. show is asked about several
// at once, since they run side by side.
func shrink(c Case, show func([]Case) ([]bool, error)) (Case, error) {
	small := []Case{{Seed: c.Seed}}
	for _, f := range c.Features {
		small = append(small, Case{Seed: c.Seed, Features: []string{f}})
	}
	shown, err := show(small)
	if err != nil {
		return c, err
	}
	if i := slices.Index(shown, true); i >= 0 {
		return small[i], nil
	}
	for len(c.Features) > 2 {
		var less []Case
		for _, f := range c.Features {
			less = append(less, c.without(f))
		}
		if shown, err = show(less); err != nil {
			return c, err
		}
		var idle []string
		for i, f := range c.Features {
			if shown[i] {
				idle = append(idle, f)
			}
		}
		if len(idle) == 0 {
			break
		}
		// What is idle alone may not be so together.
		tries := []Case{c.without(idle...), c.without(idle[:(len(idle)+1)/2]...), c.without(idle[len(idle)/2:]...)}
		if shown, err = show(tries); err != nil {
			return c, err
		}
		c = c.without(idle[0])
		if i := slices.Index(shown, true); i >= 0 {
			c = tries[i]
		}
	}
	return c, nil
}

// both are the differences whose class is in both.
func both(a, b []Difference) []Difference {
	of := classes(b)
	return slices.DeleteFunc(a, func(d Difference) bool { return !slices.Contains(of, d.class()) })
}
