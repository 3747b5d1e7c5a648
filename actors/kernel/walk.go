package kernel

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"
)

// walker adds the contents of messages to a digest: all that a message says, exported or not, and nothing of how it
// lies in memory. Equal messages have equal digests in every run and every process.
//
//   - A pointer counts as what it points at, and an interface as its type and its value.
//   - Maps count in no order. Functions and channels count as there or not.
//   - An error counts as its type and its text, and those that it wraps; one of this module as its fields.
//   - A time counts as the instant, a reference to an actor as its path.
//
// It reads memory as the types say, by plans that are made once, because a simulation walks millions of messages. The
// digest goes from call to call as a value, because each word needs the one before it.
type walker struct {
	depth int
	open  map[visit]bool // of those deep down, or nil
}

// visit is a value that is being walked.
type visit struct {
	at unsafe.Pointer
	as *plan
}

// deep is where the walker begins to look for cycles: no message has as many pointers in one another.
const deep = 100

// module is where errors are from whose fields count.
const module = "github.com/troupe-dev/troupe/"

// message adds a message to d.
func (w *walker) message(d digest, m any) digest {
	if m == nil {
		return d
	}
	return w.value(d, reflect.ValueOf(m), unsafe.Pointer(&m))
}

// value adds v, which the interface at held holds.
func (w *walker) value(d digest, v reflect.Value, held unsafe.Pointer) digest {
	p := planOf(v.Type())
	d = d.word(p.name)
	if p.foreign && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return w.failure(d, v.Interface().(error))
	}
	if v.Kind() == reflect.Pointer {
		return w.pointer(d, v.UnsafePointer(), p.steps[0].of)
	}
	if p.size > unsafe.Sizeof(uintptr(0)) {
		return w.walk(d, (*[2]unsafe.Pointer)(held)[1], p) // an interface points at what is larger than a pointer
	}
	room := reflect.New(v.Type())
	room.Elem().Set(v)
	return w.walk(d, room.UnsafePointer(), p)
}

// failure adds an error that is not of this module.
func (w *walker) failure(d digest, err error) digest {
	d = d.text(err.Error())
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		d = w.message(d, err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range err.Unwrap() {
			d = w.message(d, e)
		}
	}
	return d
}

func (w *walker) walk(d digest, at unsafe.Pointer, p *plan) digest {
	for i := range p.steps {
		s := &p.steps[i]
		at := unsafe.Add(at, s.offset)
		switch s.how {
		case read1:
			d = d.word(uint64(*(*uint8)(at)))
		case read2:
			d = d.word(uint64(*(*uint16)(at)))
		case read4:
			d = d.word(uint64(*(*uint32)(at)))
		case read8:
			d = d.word(*(*uint64)(at))
		case readString:
			d = d.text(*(*string)(at))
		case readBytes:
			b := *(*[]byte)(at)
			d = d.there(b != nil).text(unsafe.String(unsafe.SliceData(b), len(b)))
		case readPointer:
			d = w.pointer(d, *(*unsafe.Pointer)(at), s.of)
		case readSlice:
			b := *(*[]struct{})(at) // of whatever type: where it begins, and its length
			d = w.slice(d, unsafe.Pointer(unsafe.SliceData(b)), len(b), s.of)
		case readArray:
			d = w.elements(d, at, s.count, s.of)
		case readTexts:
			d = texts(d, *(*map[string]string)(at))
		case readMap:
			d = w.mapping(d, reflect.NewAt(s.typ, at).Elem(), s)
		case readInterface:
			v := reflect.NewAt(s.typ, at).Elem()
			d = d.there(!v.IsNil())
			if !v.IsNil() {
				d = w.value(d, v.Elem(), at)
			}
		case readPresence:
			d = d.there(*(*unsafe.Pointer)(at) != nil)
		case readTime:
			t := (*time.Time)(at)
			d = d.word(uint64(t.Unix())).word(uint64(t.Nanosecond()))
		case readActor:
			d = d.text((*cell)(at).path)
		case readText:
			d = d.text(reflect.NewAt(s.typ, at).Interface().(fmt.Stringer).String())
		}
	}
	return d
}

func (w *walker) pointer(d digest, at unsafe.Pointer, of *plan) digest {
	d = d.there(at != nil)
	if at != nil && w.enter(at, of) {
		d = w.walk(d, at, of)
		w.leave(at, of)
	}
	return d
}

// slice tells a nil slice from an empty one: they are told apart by who reads them.
func (w *walker) slice(d digest, at unsafe.Pointer, n int, of *plan) digest {
	d = d.there(at != nil).word(uint64(n))
	if n > 0 && w.enter(at, of) {
		d = w.elements(d, at, n, of)
		w.leave(at, of)
	}
	return d
}

func (w *walker) elements(d digest, at unsafe.Pointer, n int, of *plan) digest {
	for i := range n {
		d = w.walk(d, unsafe.Add(at, uintptr(i)*of.size), of)
	}
	return d
}

// mapping adds up the digests of the entries, which has the same result in any order.
func (w *walker) mapping(d digest, m reflect.Value, s *step) digest {
	d = d.there(!m.IsNil()).word(uint64(m.Len()))
	if m.Len() == 0 || !w.enter(m.UnsafePointer(), s.of) {
		return d
	}
	key, value := reflect.New(s.key.typ), reflect.New(s.of.typ)
	total := uint64(0)
	for i := m.MapRange(); i.Next(); {
		key.Elem().SetIterKey(i)
		value.Elem().SetIterValue(i)
		total += w.walk(w.walk(0, key.UnsafePointer(), s.key), value.UnsafePointer(), s.of).sum()
	}
	w.leave(m.UnsafePointer(), s.of)
	return d.word(total)
}

// texts is mapping for the commonest maps: labels and annotations.
func texts(d digest, m map[string]string) digest {
	d = d.there(m != nil).word(uint64(len(m)))
	if len(m) == 0 {
		return d
	}
	total := uint64(0)
	for k, v := range m { // order-free: a sum
		total += digest(0).text(k).text(v).sum()
	}
	return d.word(total)
}

// enter reports whether a value is not already being walked: then it was met again inside itself.
func (w *walker) enter(at unsafe.Pointer, as *plan) bool {
	if w.depth++; w.depth <= deep {
		return true
	}
	v := visit{at, as}
	if w.open[v] {
		w.depth--
		return false
	}
	if w.open == nil {
		w.open = map[visit]bool{}
	}
	w.open[v] = true
	return true
}

func (w *walker) leave(at unsafe.Pointer, as *plan) {
	if w.depth--; w.depth >= deep {
		delete(w.open, visit{at, as})
	}
}
