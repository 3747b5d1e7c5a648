package kernel

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// plan says how the walker reads values of a type: step by step, from the start of the value.
type plan struct {
	typ   reflect.Type
	size  uintptr
	name  uint64 // the digest of the type's name
	steps []step
	// foreign: it is an error of another module, which counts as what it says.
	foreign bool
}

// step reads what is at an offset.
type step struct {
	how    reading
	offset uintptr
	// of is the plan of what a pointer, slice, array or map leads to, key that of a map's keys.
	of, key *plan
	// count is that of an array's elements.
	count int
	typ   reflect.Type
}

// reading is a kind of step.
type reading uint8

const (
	read1 reading = iota // a number of so many bytes
	read2
	read4
	read8
	readString
	readPointer
	readSlice
	readBytes
	readArray
	// readTexts reads a map of strings by strings.
	readTexts
	readMap
	readInterface
	// readPresence reads whether there is one: a function or channel has no contents that could be compared.
	readPresence
	// readTime reads the instant, whatever its zone.
	readTime
	// readActor reads the path of an actor: its state is no part of a message.
	readActor
	// readText reads String(): what else the value has is how it was calculated.
	readText
)

// These are not read as what they are made of, wherever they are.
var (
	errorType = reflect.TypeFor[error]()
	timeType  = reflect.TypeFor[time.Time]()
	actorType = reflect.TypeFor[cell]()
	crashType = reflect.TypeFor[CrashReport]()
	panicType = reflect.TypeFor[effectPanic]()
)

// quantity is a number of the API with a unit. It remembers its own text, and calculates in one of two forms. By name,
// as the kernel does not know the API.
const quantity = "k8s.io/apimachinery/pkg/api/resource.Quantity"

// plans are made once for each type that a simulation meets.
var plans struct {
	made   sync.Map // of *plan by reflect.Type
	making sync.Mutex
}

func planOf(t reflect.Type) *plan {
	if p, ok := plans.made.Load(t); ok {
		return p.(*plan)
	}
	plans.making.Lock()
	defer plans.making.Unlock()
	m := planner{}
	p := m.plan(t)
	for t, p := range m { // order-free: each its own
		plans.made.Store(t, p)
	}
	return p
}

// planner makes plans. A type that is made of itself finds its unfinished plan here; nobody else sees it.
type planner map[reflect.Type]*plan

func (m planner) plan(t reflect.Type) *plan {
	if p, ok := plans.made.Load(t); ok {
		return p.(*plan)
	}
	if p := m[t]; p != nil {
		return p
	}
	p := &plan{typ: t, size: t.Size(), name: digest(0).text(t.PkgPath()).text(t.String()).sum(), foreign: foreign(t)}
	m[t] = p
	p.steps = m.steps(nil, t, 0)
	return p
}

// foreign reports whether t is of errors that are not of this module.
func foreign(t reflect.Type) bool {
	if !t.Implements(errorType) {
		return false
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return !strings.HasPrefix(t.PkgPath()+"/", module)
}

// numbers are the readings of kinds with a fixed size.
var numbers = map[uintptr]reading{1: read1, 2: read2, 4: read4, 8: read8}

func (m planner) steps(to []step, t reflect.Type, at uintptr) []step {
	s := step{offset: at, typ: t}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		s.how = numbers[t.Size()]
	case reflect.Complex64:
		s.how = read8
	case reflect.Complex128:
		return append(to, step{how: read8, offset: at}, step{how: read8, offset: at + 8})
	case reflect.String:
		s.how = readString
	case reflect.Pointer:
		s.how, s.of = readPointer, m.plan(t.Elem())
	case reflect.Slice:
		if t.Elem().Size() == 1 && t.Elem().Kind() != reflect.Struct && t.Elem().Kind() != reflect.Array {
			s.how = readBytes
			break
		}
		s.how, s.of = readSlice, m.plan(t.Elem())
	case reflect.Array:
		s.how, s.of, s.count = readArray, m.plan(t.Elem()), t.Len()
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String {
			s.how = readTexts
			break
		}
		s.how, s.of, s.key = readMap, m.plan(t.Elem()), m.plan(t.Key())
	case reflect.Interface:
		s.how = readInterface
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		s.how = readPresence
	case reflect.Struct:
		return m.fields(to, t, at)
	default:
		panic("kernel: a message with a " + t.String())
	}
	return append(to, s)
}

// fields puts the steps of a struct's fields in line with the others.
func (m planner) fields(to []step, t reflect.Type, at uintptr) []step {
	switch {
	case t == timeType:
		return append(to, step{how: readTime, offset: at})
	case t == actorType:
		return append(to, step{how: readActor, offset: at})
	case t.PkgPath()+"."+t.Name() == quantity:
		return append(to, step{how: readText, offset: at, typ: t})
	}
	for f := range t.Fields() {
		if f.Name != "_" && !internal(t, f) {
			to = m.steps(to, f.Type, at+f.Offset)
		}
	}
	return to
}

// internal reports whether a field says nothing: how a protobuf works, its state and the length that it remembers, and
// the stack of a panic, which has addresses.
func internal(of reflect.Type, f reflect.StructField) bool {
	if of == crashType && f.Name == "Stack" || of == panicType && f.Name == "stack" {
		return true
	}
	const own = "google.golang.org/protobuf/internal/"
	if strings.HasPrefix(f.Type.PkgPath(), own) {
		return true
	}
	state, is := of.FieldByName("state")
	return is && f.Name == "sizeCache" && strings.HasPrefix(state.Type.PkgPath(), own)
}
