package claims_test

import (
	"testing"

	"gotest.tools/v3/golden"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// TestScript: what the actor hears and says from the first pod of a claim to the last is as it stands in its file. The
// test is the pods and the drivers: no simulated machine has drivers.
func TestScript(t *testing.T) {
	talk := actortest.NewConversation("claims")
	r := rigOn(actortest.New(t, func(c *kernel.Config) {
		c.Tracer = talk
		c.Intercept = func(from, to string, m any) kernel.Fate {
			talk.Sent(from, to, m)
			return kernel.Fate{}
		}
	}))
	r.registers("gpu", false)
	r.allocate("a", []string{"gpu"}, "p", "q")
	r.tells(r.prepare("p", "a"))
	r.answers(nil, prepareA)
	r.tells(r.prepare("q", "a"))
	r.tells(r.release("p"))
	r.tells(r.release("q"))
	r.answers(nil, unprepareA)
	golden.Assert(t, talk.String(), "script.txt")
}
