package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/check"
)

func digestOf(m any) uint64 {
	return new(walker).message(0, m).sum()
}

type (
	named   string
	inner   struct{ a, b string }
	strange struct{ err error }
	// all has one of each kind of field.
	all struct {
		flag    bool
		small   int8
		short   uint16
		middle  int32
		large   int64
		real    float64
		unreal  complex128
		text    named
		bytes   []byte
		array   [2]inner
		slice   []inner
		pointer *inner
		either  any
		err     error
		call    func()
		stream  chan int
		mapping map[string]inner
		at      time.Time
		self    *all
		to      Ref[talk]
		inner
	}
)

func (strange) Error() string { return "always the same" }

// TestWalkSees: another content, another digest, in every kind of field.
func TestWalkSees(t *testing.T) {
	one, other := &cell{path: "a"}, &cell{path: "b"}
	variants := []*all{
		{}, {flag: true}, {small: 1}, {small: -1}, {short: 1}, {middle: 1}, {large: 1}, {large: 1 << 60}, {real: 0.5},
		{unreal: 1}, {unreal: 1i}, {text: "a"}, {text: "b"}, {text: "ab"}, {text: "eight by"}, {text: "eight bytes"},
		{bytes: []byte{}}, {bytes: []byte{0}}, {bytes: []byte{1}}, {array: [2]inner{{a: "x"}}}, {array: [2]inner{{b: "x"}}},
		{array: [2]inner{{}, {a: "x"}}}, {slice: []inner{}}, {slice: []inner{{}}}, {slice: []inner{{a: "x"}}},
		{slice: []inner{{a: "x"}, {b: "y"}}}, {slice: []inner{{b: "y"}, {a: "x"}}},
		{pointer: &inner{}}, {pointer: &inner{a: "x"}}, {either: inner{}}, {either: &inner{}}, {either: 1}, {either: int8(1)},
		{either: "1"}, {either: named("1")}, {either: (*inner)(nil)}, {either: []any{}}, {either: []any{"1", 1}},
		{err: errors.New("x")}, {err: errors.New("y")}, {err: context.Canceled},
		{err: fmt.Errorf("x: %w", context.Canceled)}, {err: errors.Join(context.Canceled)}, {err: strange{}},
		{err: strange{context.Canceled}}, {err: fmt.Errorf("%w", strange{})}, {err: fmt.Errorf("%w", strange{context.Canceled})},
		{err: errors.Join(strange{}, strange{})}, {err: (*CrashReport)(nil)}, {err: &CrashReport{Path: "a"}},
		{call: func() {}}, {stream: make(chan int)}, {mapping: map[string]inner{}}, {mapping: map[string]inner{"x": {}}},
		{mapping: map[string]inner{"y": {}}}, {mapping: map[string]inner{"x": {a: "x"}}},
		{mapping: map[string]inner{"x": {a: "x"}, "y": {a: "y"}}}, {mapping: map[string]inner{"x": {a: "y"}, "y": {a: "x"}}},
		{at: start}, {at: start.Add(1)}, {at: start.Add(time.Second)}, {self: &all{}}, {self: &all{self: &all{}}},
		{to: Ref[talk]{one}}, {to: Ref[talk]{other}}, {inner: inner{a: "x"}}, {inner: inner{b: "x"}},
	}
	seen := map[uint64]int{}
	for i, v := range variants {
		sum := digestOf(*v)
		if o, is := seen[sum]; is {
			t.Errorf("%d and %d have one digest: %+v, %+v", o, i, variants[o], v)
		}
		seen[sum] = i
	}
}

// TestWalkSeesNoMore: the same content has the same digest, wherever it lies and whatever was done with it.
func TestWalkSeesNoMore(t *testing.T) {
	number := func(use func(*resource.Quantity)) any {
		q := resource.MustParse("1536Mi")
		use(&q)
		return q
	}
	large := func(backwards bool) any {
		m := map[named]*inner{}
		for i := range 100 {
			if backwards {
				i = 99 - i
			}
			m[named(fmt.Sprint(i))] = &inner{a: fmt.Sprint(i)}
		}
		return m
	}
	message := func(use func(*structpb.Struct)) any {
		s := check.Value(structpb.NewStruct(map[string]any{"a": []any{1, "b", true}, "c": map[string]any{"d": nil}}))(t)
		use(s)
		return s
	}
	for name, pair := range map[string][2]any{
		"pointers":        {all{pointer: &inner{"x", "y"}}, all{pointer: &inner{"x", "y"}}},
		"errors":          {all{err: errors.New("x")}, all{err: errors.New("x")}},
		"actors":          {Ref[talk]{&cell{path: "a", handled: 1}}, Ref[talk]{&cell{path: "a", handled: 2}}},
		"functions":       {all{call: func() {}}, all{call: func() { t.Log("another") }}},
		"channels":        {make(chan int), make(chan int, 1)},
		"maps":            {large(false), large(true)},
		"zones":           {start, start.In(time.FixedZone("east", 3600))},
		"readings":        {time.Unix(5, 0), time.Unix(5, 0).UTC()},
		"stacks":          {&CrashReport{Stack: "0x1"}, &CrashReport{Stack: "0x2"}},
		"stacks in calls": {&effectPanic{stack: string(debug.Stack())}, &effectPanic{}},
		"text":            {number(func(*resource.Quantity) {}), number(func(q *resource.Quantity) { _, _ = q.MarshalJSON() })},
		"decimals":        {number(func(*resource.Quantity) {}), number(func(q *resource.Quantity) { q.AsDec() })},
		"protobufs": {message(func(*structpb.Struct) {}), message(func(s *structpb.Struct) {
			if _, err := proto.Marshal(s); err != nil || s.ProtoReflect() == nil {
				t.Fatal(err)
			}
		})},
	} {
		check.Equal(t, digestOf(pair[0]), digestOf(pair[1]), "%s", name)
	}
}

// TestWalkCycles: what leads to itself is walked once, and its contents are seen.
func TestWalkCycles(t *testing.T) {
	ring := func(last string) uint64 {
		a := &all{text: "a"}
		a.self = &all{text: named(last), self: a}
		return digestOf(a)
	}
	if one, again := ring("b"), ring("b"); one != again || one == ring("c") {
		t.Error("a ring of pointers")
	}
	list := []any{1, nil}
	list[1] = list
	table := map[string]any{}
	table["self"] = table
	if digestOf(list) == digestOf(table) {
		t.Error("a list and a map that hold themselves")
	}
	long := &all{}
	for range 10 * deep { // with no cycle
		long = &all{self: long}
	}
	if one := digestOf(long); one == digestOf(&all{self: long}) || one != digestOf(long) {
		t.Error("a long chain")
	}
}

// TestDigestLengths: a text of any length differs from a shorter one, and from one with another last byte.
func TestDigestLengths(t *testing.T) {
	seen := map[digest]string{}
	for n := range 40 {
		for _, last := range []string{"", "\x00", "x"} {
			s := string(make([]byte, n)) + last
			d := digest(0).text(s)
			if o, is := seen[d]; is && o != s {
				t.Errorf("%q and %q", o, s)
			}
			seen[d] = s
		}
	}
}

func BenchmarkWalkPod(b *testing.B) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "app", Image: "registry.test/app:1", Env: []v1.EnvVar{{Name: "A", Value: "b"}},
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
	}}}}
	pod.Name, pod.Namespace, pod.Labels = "app-0", "default", map[string]string{"app": "web"}
	var w walker
	b.ReportAllocs()
	for b.Loop() {
		w.message(0, pod)
	}
}
