package differ

import (
	"regexp"
	"sync"
)

// known is a difference that has its line in the docs.
type known struct {
	// class, kubelet and troupe are what the difference matches. An empty one matches all. A class may be that of one container.
	class, kubelet, troupe string
	// beside is what a key of one of the nodes matches if it is this difference. Empty: it needs none.
	beside string
	// doc is a file below docs, and row words of the line that tells of it.
	doc, row string
}

func (k known) is(d Difference, kubelet, troupe keys) bool {
	return (matches(k.class, d.class()) || matches(k.class, d.Key)) && matches(k.kubelet, d.Kubelet) && matches(k.troupe, d.Troupe) &&
		(k.beside == "" || kubelet.some(k.beside) || troupe.some(k.beside))
}

func matches(pattern, text string) bool {
	return pattern == "" || pattern == none && text == none || compiled(`(?s)^(?:`+pattern+`)$`).MatchString(text)
}

// patterns are those that were compiled: each pod asks for all of them, several times a second.
var patterns sync.Map // *regexp.Regexp by its text

func compiled(pattern string) *regexp.Regexp {
	if of, there := patterns.Load(pattern); there {
		return of.(*regexp.Regexp)
	}
	of := regexp.MustCompile(pattern)
	patterns.Store(pattern, of)
	return of
}

// some says whether a key matches.
func (k keys) some(pattern string) bool {
	of := compiled(pattern)
	for key := range k { // order-free: any of them
		if of.MatchString(key) {
			return true
		}
	}
	return false
}

// knowns are all differences that are known. TestKnown holds each to its line.
var knowns = []known{
	{class: `cri/create/\*/[01]/annotations/(io\.kubernetes\.container\.type|troupe\.dev/container-spec-hash)`, kubelet: none, doc: page, row: "annotations of containers"},
	{class: `cri/create/\*/[01]/linux/securityContext/maskedPaths`, troupe: `.*thermal_throttle.*`, doc: page, row: "thermal counters"},
	{class: `cri/create/\*/[01]/mounts\[.*\]/hostPath`, troupe: `.*\.termination`, doc: page, row: "the file of a termination message"},
	{class: `seen/\*/Mounts/.*`, troupe: `.*\.termination .*`, doc: page, row: "the file of a termination message"},
	{class: `directory/containers/\*/(HEX|\d+\.termination)`, doc: page, row: "the file of a termination message"},
	{class: `cri/sandbox/config/annotations/kubernetes\.io/config\.seen`, troupe: none, doc: page, row: "`kubernetes.io/config.seen` of a new sandbox"},
	{class: `cri/create/.*/of-sandbox/annotations/kubernetes\.io/config\.seen`, doc: page, row: "`kubernetes.io/config.seen` of a new sandbox"},
	{class: `cri/create/\*/[01]/mounts\[.*\]/image/annotations/.*`, troupe: none, doc: page, row: "annotations of an image volume"},
	{class: `cri/create/\*/[01]/mounts\[.*\]/imageSubPath`, troupe: none, doc: page, row: "`imageSubPath` of a volume"},
	{class: `directory/(containers|plugins|volumes|volume-subpaths|etc-hosts).*`, kubelet: mode, troupe: mode, doc: page, row: layout},
	{class: `directory/plugins.*`, doc: page, row: layout},
	{class: `directory/(containers|etc-hosts).*`, kubelet: none, beside: unable, doc: page, row: layout},
	{class: `directory/etc-hosts`, kubelet: none, beside: `/volumeMounts\[/etc/hosts\]/name$`, doc: page, row: layout},
	{class: `directory/containers/\*`, kubelet: none, troupe: mode, beside: `^status/containerStatuses\[.*\]/state/waiting/`, doc: page, row: layout},
	{class: `directory/volume-subpaths`, troupe: none, beside: unable, doc: page, row: layout},
	{class: `event/Normal/Pulled/.*`, kubelet: none, beside: `^event/Warning/FailedCreatePodSandBox/`, doc: page, row: "its images are pulled"},
	{class: `event/Normal/Pulled/.*`, kubelet: none, beside: `^event/Warning/Failed//Failed to pull image`, doc: page, row: "the image of a volume can't be pulled"},
	{class: `(status|end)/resources(/.*)?`, troupe: none, doc: page, row: "`status.resources` of a pod without resources of its own"},
	{class: `end/.*/lastState(/.*)?`, kubelet: none, doc: page, row: "how a container ended the time before the last"},
	{class: `end/.*/lastState(/.*)?`, troupe: none, doc: page, row: "how a container ended the time before the last"},
	{class: `end/conditions\[(ContainersReady|Ready)\]/reason`, kubelet: "ContainersNotReady", troupe: "PodFailed", doc: page, row: unmade},
	{class: `end/conditions\[(ContainersReady|Ready)\]/message`, kubelet: "containers with unready status: .*", troupe: none, doc: page, row: unmade},
	{class: `history/condition/(ContainersReady|Ready)=False PodFailed`, kubelet: none, doc: page, row: unmade},
	{class: `event/Warning/FailedToRetrieveImagePullSecret/.*`, kubelet: "kubelet", troupe: none, doc: page, row: "`FailedToRetrieveImagePullSecret`"},
	{class: `cri/pull/.*`, troupe: none, doc: differences, row: "several pods that want an image at once"},
	{class: `cri/pull/.*`, kubelet: none, beside: `^status/initContainerStatuses\[`, doc: differences, row: "Image of a container that waits for init containers"},
	{class: `cri/stop/\*`, kubelet: `2`, troupe: `1`, doc: differences, row: "A pod is stopped by force"},
	{class: `cri/(sandbox|sandboxes|stop-sandbox)`, kubelet: `0|\(none\)`, beside: unmounted, doc: differences, row: ahead},
	{class: `(status|end)/podIPs?(\[.*)?`, kubelet: none, beside: unmounted, doc: differences, row: ahead},
	{class: `history/condition/PodReadyToStartContainers=True `, kubelet: none, beside: unmounted, doc: differences, row: ahead},
	{class: `(status|end)/conditions\[PodReadyToStartContainers\]/status`, kubelet: "False", beside: unmounted, doc: differences, row: ahead},
	{class: `(status|end)/.*/state/waiting/message`, kubelet: none, doc: differences, row: "State of a container that waits for a hook"},
	{class: `(status|end)/conditions\[PodReadyToStartContainers\]/(reason|message)`, kubelet: none, doc: statusPage, row: "its reason `PodSandboxNotReady`"},
	{class: `history/condition/PodReadyToStartContainers=False (PodSandboxNotReady)?`, doc: statusPage, row: "its reason `PodSandboxNotReady`"},
	{class: `event/Warning/Unhealthy/.*(connection refused|deadline exceeded.*|i/o timeout)`, doc: differences, row: "extra probes of a new container"},
	{class: `cri/exec/\*//work exit \d`, kubelet: none, doc: differences, row: "extra probes of a new container"},
	{class: `seen/\*/Files/.*/(cpu|memory)`, beside: `^status/resources/limits/`, doc: differences, row: "A file of the downward API"},
	{class: `end/containerStatuses\[\*\]/state/waiting/reason`, kubelet: "PodInitializing|ContainerCreating", doc: page, row: "why a container waits, when its pod ends"},
	{class: `(status|end)/.*/recursiveReadOnly`, kubelet: "Enabled", beside: `^event/Warning/Failed/`, doc: page, row: "recursiveReadOnly of a container that does not exist"},
	{class: `status/(.*observedGeneration|order|ephemeralContainerStatuses.*)`, beside: unmounted, doc: page, row: "a change of a pod that waits for its volumes"},
	{class: `status/ephemeralContainerStatuses\[\*\]/(state|lastState).*`, beside: unstarted, doc: page, row: "an ephemeral container that could not be started"},
	{class: `event/Warning/Failed/spec\.ephemeralContainers\{\*\}/.*invalid target container.*`, doc: page, row: "an ephemeral container that could not be started"},
	{class: `history/container/\*`, kubelet: ".*waiting CreateContainerError.*", beside: unstarted, doc: page, row: "an ephemeral container that could not be started"},
	{class: `cri/create/\*/[01]/of-sandbox/linux/sysctls/.*`, troupe: none, doc: page, row: "sysctls with slashes"},
	{class: `event/Warning/Failed/` + untargeted, kubelet: "kubelet", troupe: none, doc: differences, row: "An ephemeral container whose target"},
	{class: `history/container/\*`, kubelet: `.*waiting CreateContainerConfigError.*`, beside: untargeted, doc: differences, row: "An ephemeral container whose target"},
	{class: `cri/create/ephemeral/0|directory/containers/ephemeral`, troupe: none, beside: mistargeted, doc: differences, row: targetEnded},
	{class: `event/Normal/Pulled/spec\.ephemeralContainers.*`, troupe: none, beside: mistargeted, doc: differences, row: targetEnded},
	{class: `event/Warning/FailedMount//.*` + oldCheck, kubelet: "kubelet", beside: newCheck, doc: volumes, row: "hostPath: the error says what is there"},
	{class: `event/Warning/FailedMount//.*` + newCheck, troupe: "kubelet", beside: oldCheck, doc: volumes, row: "hostPath: the error says what is there"},
	{class: `event/Warning/Unhealthy/.* probe errored and resulted in .*`, doc: page, row: "a probe that the end of its container cuts off"},
	{class: `end/(initC|c)ontainerStatuses\[\*\]/state/terminated/(exitCode|reason)`, kubelet: ending, troupe: ending, beside: backedOff, doc: page, row: "a container that ends again and again"},
	{class: `history/container/\*`, kubelet: endings, troupe: endings, beside: backedOff, doc: page, row: "a container that ends again and again"},
	{class: `cri/exec/\*/.*`, kubelet: `1`, troupe: none, beside: `^status/containerStatuses\[.*\]/state/terminated/`, doc: page, row: "a probe that is due as its container ends"},
	{class: `seen/\*/Files/.*/token`, kubelet: `Lrwxrwxrwx \d+:\d+ -> .*`, troupe: `Lrwxrwxrwx 0:\d+ -> .*`, doc: page, row: "owner of the link to a token"},
	{class: `cri/create/\*/[01]/linux/resources/oomScoreAdj`, kubelet: `-99\d`, doc: page, row: "`oom_score_adj` below that of the agent"},
}

// The documents that have the lines.
const page, differences, volumes, statusPage = "parity/differ.md", "differences.md", "parity/volumes-objects.md", "parity/status-pleg-gc.md"

// A pod whose volumes are not there has a sandbox all the same.
const unmounted, ahead = `^event/Warning/FailedMount/`, "Sandbox of a pod whose volumes are not there yet"

// Errors of ephemeral containers: of any that can't be started, and of one whose target does not run.
const unstarted = `^event/Warning/Failed/spec\.ephemeralContainers`
const untargeted = `spec\.ephemeralContainers\{.*\}/Error: unable to find target container .*`

// How a container ends by itself or is ended with its pod, and that it ends again and again.
const ending, endings, backedOff = `0|1|143|Completed|Error`, `(.*, )?terminated (Completed 0|Error 1|Error 143)(, .*)?`, `^event/Warning/BackOff/`

// What is below the directory of a pod: its mode and owner.
const mode, layout = `[0-7]+ \d+:\d+`, "layout and modes of a pod's directory"

// A pod of which a container, or the sandbox, can't be made.
const unable = `^event/Warning/(Failed|FailedCreatePodSandBox)/`

// A pod that failed before it had containers.
const unmade = "a pod whose containers never existed"

// The error of one whose target has ended.
const mistargeted, targetEnded = `^event/Warning/Failed/spec\.ephemeralContainers.*invalid target container`, "An ephemeral container whose target"

// The error of a hostPath of another type, as it was until v1.36, and as it is since.
const oldCheck, newCheck = `hostPath type check failed: \S+ is not a [a-z ]+$`, `hostPath type check failed: \S+ is not a [a-z ]+, .*$`
