package smallmap

// Lookup finds entries of a list by their keys. The list must not be reordered meanwhile.
type Lookup[K comparable, T any] struct {
	list []T
	key  func(*T) K
	// at is where each key is; nil until it is needed.
	at map[K]int
}

// LookupIn looks for entries of a list, each of which has a key of its own.
func LookupIn[K comparable, T any](list []T, key func(*T) K) Lookup[K, T] {
	return Lookup[K, T]{list: list, key: key}
}

// Place is where the entry of k is, -1 if there is none. guess is where it is if the list has the order in which keys
// are asked for: then many cost no more than few. Otherwise many get an index.
func (l *Lookup[K, T]) Place(k K, guess int) int {
	if guess < len(l.list) && l.key(&l.list[guess]) == k {
		return guess
	}
	if len(l.list) <= Few {
		for i := range l.list {
			if l.key(&l.list[i]) == k {
				return i
			}
		}
		return -1
	}
	if l.at == nil {
		l.at = make(map[K]int, len(l.list))
		for i := range l.list {
			l.at[l.key(&l.list[i])] = i
		}
	}
	if i, is := l.at[k]; is {
		return i
	}
	return -1
}

// Get is the entry of k, nil if there is none.
func (l *Lookup[K, T]) Get(k K) *T {
	if i := l.Place(k, len(l.list)); i >= 0 {
		return &l.list[i]
	}
	return nil
}
