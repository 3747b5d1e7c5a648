package kernel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

type (
	plainText string
	keyedText struct{ key, text string }
	otherText struct{ key, text string }
)

func (k keyedText) MailboxKey() string { return k.key }
func (k otherText) MailboxKey() string { return k.key }

// A queue is a list in which the newest message of a key is found, however many wait.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &queue{}
		var model []envelope
		draw := func(t *rapid.T) envelope {
			e := envelope{timer: uint32(rapid.IntRange(0, 1).Draw(t, "timer")), at: int64(len(model))}
			key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
			switch rapid.IntRange(0, 2).Draw(t, "sort") {
			case 0:
				e.msg = plainText(key)
			case 1:
				e.msg, e.key, e.keyed = keyedText{key, rapid.String().Draw(t, "text")}, key, true
			default:
				e.msg, e.key, e.keyed = otherText{key, ""}, key, true
			}
			return e
		}
		// A keyed message is pushed only if none of its key waits, as cells do it.
		find := func(e envelope) int {
			return slices.IndexFunc(model, func(w envelope) bool { return e.keyed && w.keyed && w.index() == e.index() })
		}
		push := func(t *rapid.T) {
			e := draw(t)
			if i := find(e); i >= 0 {
				q.find(&e).msg = e.msg
				model[i].msg = e.msg
				return
			}
			q.push(e)
			model = append(model, e)
		}
		pop := func(t *rapid.T) {
			if len(model) == 0 {
				t.Skip("empty")
			}
			check.Fatal(t, check.Is(q.pop(), model[0], "pop"))
			model = model[1:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": push,
			"burst": func(t *rapid.T) {
				for range rapid.IntRange(1, 3*indexFrom).Draw(t, "n") {
					push(t)
				}
			},
			"pop": pop,
			"drain": func(t *rapid.T) {
				for len(model) > rapid.IntRange(0, 2).Draw(t, "left") {
					pop(t)
				}
			},
			"": func(t *rapid.T) {
				check.Fatal(t, check.Is(q.depth(), len(model), "depth"))
				if len(model) > 0 && q.oldest() != model[0].at {
					t.Fatalf("oldest %d, want %d", q.oldest(), model[0].at)
				}
				for _, w := range model {
					if !w.keyed {
						continue
					}
					if got := q.find(&w); got == nil || *got != w {
						t.Fatalf("find %+v = %+v", w, got)
					}
				}
				none := envelope{msg: keyedText{"none", ""}, key: "none", keyed: true}
				if q.find(&none) != nil {
					t.Fatal("it finds what is not there")
				}
			},
		})
	})
}
