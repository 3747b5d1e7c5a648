package chaos_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// dashes are between the head of a script and its conversation.
const dashes = "----\n"

// parseScript reads the head of a script: a case, the actor that is listened to, between what times after the start, and
// without which kinds of messages and calls.
func parseScript(t *testing.T, head string) (*plan.Case, *actortest.Conversation) {
	t.Helper()
	var c *plan.Case
	talk := actortest.NewConversation("")
	talk.Know("n1", "node")
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.HasPrefix(key, "#"), key == "":
		case key == "actor":
			talk.Actor = value
		case key == "case":
			c = check.Value(plan.Parse(value))(t)
			c.Schedule.Priorities = true // so that what one actor does does not change the order of others
		case key == "from":
			talk.From = check.Value(time.ParseDuration(value))(t)
		case key == "to":
			talk.To = check.Value(time.ParseDuration(value))(t)
		case key == "without":
			talk.Without = strings.Fields(value)
		default:
			t.Fatalf("%q: want actor, case, from, to or without, and a value after a colon", line)
		}
	}
	check.Fatal(t, check.That(talk.Actor != "" && c != nil, "a script has an actor and a case"))
	return c, talk
}

// TestScripts: what each of the largest actors hears and says in the life of a pod is as it stands in its file. The actor
// runs among all others on a simulated node. go test -update writes what is below the dashes.
func TestScripts(t *testing.T) {
	paths := check.Value(filepath.Glob("testdata/scripts/*.txt"))(t)
	check.AtLeast(t, len(paths), 10, "there are %d scripts", len(paths))
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(strings.TrimSuffix(name, ".txt"), func(t *testing.T) {
			t.Parallel()
			head, _, _ := strings.Cut(string(check.Value(os.ReadFile(path))(t)), dashes)
			c, talk := parseScript(t, head)
			r := chaos.Run(c, chaos.WithTrace(talk, func(from, to string, m any) {
				if w, is := m.(podset.Wanted); is {
					for _, p := range w.Pods {
						talk.Know(string(p.UID), p.Name)
					}
				}
				talk.Sent(from, to, m)
			}))
			check.Fatal(t, check.Is(r.Verdict(), chaos.Held, "the case: %v", r.Violations))
			golden.Assert(t, head+dashes+talk.String(), filepath.Join("scripts", name))
		})
	}
}
