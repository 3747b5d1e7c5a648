package smallmap

// Many is a Map of which some get long, such as what is known of each volume of a pod: as cheap with few entries, and
// with many it has an index, so that each call costs the same. The zero value is empty.
type Many[K comparable, V any] struct {
	list Map[K, V]
	// at is where each key is; nil with few.
	at map[K]int
}

func (m *Many[K, V]) index(k K) int {
	if m.at == nil {
		return m.list.index(k)
	}
	if i, is := m.at[k]; is {
		return i
	}
	return -1
}

// Get gives what k has; ok is false if there is no k.
func (m *Many[K, V]) Get(k K) (v V, ok bool) {
	if i := m.index(k); i >= 0 {
		return m.list[i].Value, true
	}
	return v, false
}

// At gives what k has, the zero value if there is no k.
func (m *Many[K, V]) At(k K) V {
	v, _ := m.Get(k)
	return v
}

// Has says whether there is a k.
func (m *Many[K, V]) Has(k K) bool { return m.index(k) >= 0 }

// Len is how many entries there are.
func (m *Many[K, V]) Len() int { return len(m.list) }

// List are the entries, in the order in which their keys came, unless one of many was deleted: the last one takes its
// place. It is valid until the next change. Values may be changed in it, keys not.
func (m *Many[K, V]) List() Map[K, V] { return m.list }

// Set gives k the value v. A new key is the last.
func (m *Many[K, V]) Set(k K, v V) {
	if i := m.index(k); i >= 0 {
		m.list[i].Value = v
		return
	}
	m.list = append(m.list, Entry[K, V]{k, v})
	switch {
	case m.at != nil:
		m.at[k] = len(m.list) - 1
	case len(m.list) > Few:
		m.reindex()
	}
}

// Delete takes k out, and reports whether it was there. The last one to go takes the memory with it.
func (m *Many[K, V]) Delete(k K) bool {
	if m.at == nil {
		return m.list.Delete(k)
	}
	i, is := m.at[k]
	if !is {
		return false
	}
	last := len(m.list) - 1
	m.list[i] = m.list[last]
	m.at[m.list[i].Key] = i
	m.list[last] = Entry[K, V]{}
	m.list = m.list[:last]
	if delete(m.at, k); last == 0 {
		m.list, m.at = nil, nil
	}
	return true
}

// DeleteFunc takes out all of which del is true.
func (m *Many[K, V]) DeleteFunc(del func(K, V) bool) {
	m.list.DeleteFunc(del)
	if m.at != nil {
		m.reindex()
	}
}

func (m *Many[K, V]) reindex() {
	if m.at = nil; len(m.list) <= Few {
		return
	}
	m.at = make(map[K]int, len(m.list))
	for i := range m.list {
		m.at[m.list[i].Key] = i
	}
}

// Shared is the list for others to keep: entries that come later are not in it, and before one that it has is changed,
// the map must be given a list of its own by Part.
func (m *Many[K, V]) Shared() Map[K, V] { return m.list[:len(m.list):len(m.list)] }

// Part leaves the list to those who share it.
func (m *Many[K, V]) Part() { m.list = m.list.Clone() }
