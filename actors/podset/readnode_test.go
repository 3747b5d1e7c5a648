package podset_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podset"
)

// TestNodeIsReadAgain: a pod that only the labels of the node are against waits until these were read once more. Others
// go on, and it is judged once for each reading that began after it came.
func TestNodeIsReadAgain(t *testing.T) {
	r := newRig(t, 0)
	r.reject["a"], r.reject["b"], r.reject["big"] = notLabelled, notLabelled, "OutOfcpu"
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a big c"))
	r.in("it waits, and nobody else", "a Waiting, big Rejected, c Running")
	r.want("the Node is asked for", []string{"nodestatus:", "event:"}, "nodestatus: read 1", "event: big OutOfcpu")
	r.tells(has(podspec.API, "a big c b"))
	r.want("another pod asks for itself", []string{"nodestatus:"}, "nodestatus: read 2")
	delete(r.reject, "a")
	r.tells(podset.NodeRead{Number: 1})
	r.in("it has the label", "a Running, big Rejected, c Running, b Waiting")
	r.tells(podset.NodeRead{Number: 1})
	r.in("an old answer", "a Running, big Rejected, c Running, b Waiting")
	r.tells(podset.NodeRead{Number: 2})
	r.in("it has not", "a Running, big Rejected, c Running, b Rejected")
	r.want("it is said why", []string{"nodestatus:", "event: b"}, "event: b NotLabelled")
	r.tells(podset.NodeRead{Number: 2}, node)
	r.Advance(time.Minute)
	r.want("that is all", []string{"nodestatus:", "event: b"})
}

// TestNodeIsAskedForAgain: the question or the answer was lost. A pod that goes meanwhile is waited for no more.
func TestNodeIsAskedForAgain(t *testing.T) {
	r := newRig(t, 0)
	r.reject["a"] = notLabelled
	r.tells(node, r.listed(""), has(podspec.File, ""), has(podspec.API, "a"))
	r.Advance(2500 * time.Millisecond)
	r.want("it is asked again", []string{"nodestatus:"}, "nodestatus: read 1", "nodestatus: read 1", "nodestatus: read 1")
	r.tells(has(podspec.API, ""))
	r.in("the pod is gone", "")
	r.tells(has(podspec.API, "a"), podset.NodeRead{Number: 1})
	r.in("another life of it asks anew", "a Waiting")
	r.tells(podset.NodeRead{Number: 2})
	r.in("it is refused", "a Rejected")
	r.Forget()
	r.Advance(time.Minute)
	r.want("nobody waits", []string{"nodestatus:"})
}

// TestStaticPodIsLabelledLater: a static pod that was refused for the labels comes when the node has them.
func TestStaticPodIsLabelledLater(t *testing.T) {
	r := newRig(t, 0)
	r.reject["a"] = notLabelled
	r.tells(node, r.listed(""), has(podspec.API, ""), has(podspec.File, "a"), podset.NodeRead{Number: 1})
	r.in("refused", "a Rejected")
	delete(r.reject, "a")
	r.tells(node)
	r.in("the node has got the label", "a Running")
}
