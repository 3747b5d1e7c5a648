package differ

import "regexp"

// known is a difference that has its line in the docs.
type known struct {
	// class, kubelet and troupe are what the difference matches. An empty one matches all.
	class, kubelet, troupe string
	// doc is a file below docs, and row words of the line that tells of it.
	doc, row string
}

func (k known) is(d Difference) bool {
	matches := func(pattern, text string) bool {
		return pattern == "" || pattern == none && text == none || regexp.MustCompile(`(?s)^(?:`+pattern+`)$`).MatchString(text)
	}
	return matches(k.class, d.class()) && matches(k.kubelet, d.Kubelet) && matches(k.troupe, d.Troupe)
}

// knowns are all differences that are known. TestKnown holds each to its line.
var knowns = []known{
	{class: `cri/create/\*/[01]/annotations/(io\.kubernetes\.container\.type|troupe\.dev/container-spec-hash)`, kubelet: none, doc: page, row: "annotations of containers"},
	{class: `cri/create/\*/[01]/linux/securityContext/maskedPaths`, troupe: `.*thermal_throttle.*`, doc: page, row: "thermal counters"},
	{class: `cri/create/\*/[01]/mounts\[.*\]/hostPath`, troupe: `.*\.termination`, doc: page, row: "the file of a termination message"},
	{class: `seen/\*/Mounts/.*`, troupe: `.*\.termination .*`, doc: page, row: "the file of a termination message"},
	{class: `directory/containers/\*/(HEX|\d+\.termination)`, doc: page, row: "the file of a termination message"},
	{class: `seen/\*/Mounts/.*`, kubelet: `tmpfs .* rw,size=\d+k,noswap;`, troupe: `tmpfs .* rw,noswap;`, doc: page, row: "size of the tmpfs"},
	{class: `cri/sandbox/config/annotations/kubernetes\.io/config\.seen`, troupe: none, doc: page, row: "`kubernetes.io/config.seen` of a new sandbox"},
	{class: `cri/create/.*/of-sandbox/annotations/kubernetes\.io/config\.seen`, doc: page, row: "`kubernetes.io/config.seen` of a new sandbox"},
	{class: `cri/create/\*/[01]/mounts\[.*\]/image/annotations/.*`, troupe: none, doc: page, row: "annotations of an image volume"},
	{class: `cri/create/\*/[01]/mounts\[.*\]/imageSubPath`, troupe: none, doc: page, row: "`imageSubPath` of a volume"},
	{class: `directory/(containers|plugins|volumes|volume-subpaths|etc-hosts).*`, doc: page, row: "layout and modes of a pod's directory"},
	{class: `(status|end)/resources(/.*)?`, troupe: none, doc: page, row: "`status.resources` of a pod without resources of its own"},
	{class: `end/.*/lastState(/.*)?`, doc: page, row: "how a container ended the time before the last"},
	{class: `(end|history)/condition.*(ContainersReady|Ready)\b.*`, doc: page, row: "a pod whose containers never existed"},
	{class: `event/Warning/FailedToRetrieveImagePullSecret/.*`, kubelet: "kubelet", troupe: none, doc: page, row: "`FailedToRetrieveImagePullSecret`"},
	{class: `(cri/pull/.*|event/Normal/(Pulling|Pulled)/.*)`, doc: differences, row: "several pods that want an image at once"},
	{class: `seen/\*/Files/.*annotations`, kubelet: `.*kubernetes\.io/config\.seen.*`, doc: page, row: "the node's annotations in a downward API volume"},
	{class: `cri/stop/\*`, kubelet: `\d`, troupe: `\d`, doc: page, row: "whole seconds that are left of a pod's grace"},
	{class: `event/Warning/Unhealthy/.* probe errored and resulted in .*`, doc: page, row: "a probe that the end of its container cuts off"},
	{class: `seen/\*/Files/.*/token`, kubelet: `Lrwxrwxrwx \d+:0 -> .*`, troupe: `Lrwxrwxrwx 0:0 -> .*`, doc: page, row: "owner of the link to a token"},
	{class: `cri/create/\*/[01]/linux/resources/oomScoreAdj`, kubelet: `-99\d`, doc: page, row: "`oom_score_adj` below that of the agent"},
}

// The documents that have the lines.
const page, differences = "parity/differ.md", "differences.md"
