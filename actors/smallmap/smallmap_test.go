package smallmap

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// It is a map.
func TestMapModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int, string]
		model := map[int]string{}
		var order []int
		key := rapid.IntRange(0, 6)
		drop := func(k int) {
			delete(model, k)
			for i, o := range order {
				if o == k {
					order = append(order[:i:i], order[i+1:]...)
					break
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.String().Draw(t, "value")
				if _, ok := model[k]; !ok {
					order = append(order, k)
				}
				m.Set(k, v)
				model[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				_, want := model[k]
				check.Fatal(t, check.Is(m.Delete(k), want, "Delete(%d)", k))
				drop(k)
			},
			"deleteFunc": func(t *rapid.T) {
				n := key.Draw(t, "from")
				m.DeleteFunc(func(k int, _ string) bool { return k >= n })
				for k := range model {
					if k >= n {
						drop(k)
					}
				}
			},
			"clone": func(t *rapid.T) {
				c := m.Clone()
				c.Set(100, "")
				if m.Has(100) {
					t.Fatal("a clone changes what it is of")
				}
			},
			"": func(t *rapid.T) {
				got := map[int]string{}
				for i, e := range m {
					got[e.Key] = e.Value
					check.Fatal(t, check.Is(order[i], e.Key, "order %v, want %v", m, order))
				}
				if !maps.Equal(got, model) || len(m) != len(model) {
					t.Fatalf("%v, want %v", m, model)
				}
				for k := range 7 {
					v, ok := m.Get(k)
					want, there := model[k]
					if v != want || ok != there || m.At(k) != want || m.Has(k) != there {
						t.Fatalf("Get(%d) = %q, %v", k, v, ok)
					}
				}
				if len(m) == 0 && m != nil {
					t.Fatal("an empty map keeps memory")
				}
			},
		})
	})
}

// TestIndex: it finds what Get finds, with few entries and with many.
func TestIndex(t *testing.T) {
	for _, n := range []int{0, 1, Few, Few + 1, 3 * Few} {
		var m Map[int, string]
		for k := range n {
			m.Set(2*k, string(rune('a'+k)))
		}
		find := m.Index()
		for k := -1; k < 2*n+1; k++ {
			got, found := find(k)
			want, there := m.Get(k)
			if got != want || found != there {
				t.Errorf("%d entries: %d has %q, %v; want %q, %v", n, k, got, found, want, there)
			}
		}
	}
}
