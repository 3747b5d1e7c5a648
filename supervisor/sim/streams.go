package sim

import "math/rand/v2"

// Rand gives the random stream of a name, from its beginning. Each name has a
// stream of its own, so that a new draw in one does not shift the others. Names
// of the world's own begin with node/, api/, controlplane/ and world/.
func (w *World) Rand(name string) *rand.Rand {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.config.Seed, h))
}

// streams are those whose names begin with prefix.
func (w *World) streams(prefix string) func(string) *rand.Rand {
	return func(name string) *rand.Rand { return w.Rand(prefix + name) }
}
