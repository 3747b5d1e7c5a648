package smallmap

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMany: it is a map, with few entries and with many, and as long as there are few in the order of a Map.
func TestMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Many[int, string]
		var list Map[int, string]
		model := map[int]string{}
		key := rapid.IntRange(0, 2*Few)
		many := false
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "how many") {
					k, v := key.Draw(t, "key"), rapid.StringN(0, 2, -1).Draw(t, "value")
					m.Set(k, v)
					list.Set(k, v)
					model[k] = v
				}
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				_, there := model[k]
				list.Delete(k)
				if m.Delete(k) != there {
					t.Fatalf("Delete(%d), which is there: %v", k, there)
				}
				delete(model, k)
			},
			"deleteFunc": func(t *rapid.T) {
				n := key.Draw(t, "from")
				del := func(k int, _ string) bool { return k >= n }
				m.DeleteFunc(del)
				list.DeleteFunc(del)
				maps.DeleteFunc(model, del)
			},
			"share": func(t *rapid.T) {
				shared := m.Shared()
				before := slices.Clone(shared)
				m.Part()
				for _, e := range shared {
					m.Set(e.Key, e.Value+"!")
				}
				if !slices.Equal(shared, before) {
					t.Fatal("what is shared changes")
				}
				for _, e := range shared {
					m.Set(e.Key, e.Value)
				}
			},
			"": func(t *rapid.T) {
				many = (many || m.Len() > Few) && m.Len() > 0
				got := map[int]string{}
				for _, e := range m.List() {
					got[e.Key] = e.Value
				}
				if !maps.Equal(got, model) || m.Len() != len(model) {
					t.Fatalf("%v, want %v", m.List(), model)
				}
				for k := range 2*Few + 1 {
					v, ok := m.Get(k)
					want, there := model[k]
					if v != want || ok != there || m.At(k) != want || m.Has(k) != there {
						t.Fatalf("Get(%d) = %q, %v", k, v, ok)
					}
				}
				if !many && !slices.Equal(m.List(), list) {
					t.Fatalf("in the order %v, want %v", m.List(), list)
				}
				if m.Len() == 0 && m.List() != nil {
					t.Fatal("an empty map keeps memory")
				}
			},
		})
	})
}
