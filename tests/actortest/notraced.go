//go:build !race

package actortest

// Raced: the race detector is on. Explorers of many seeds try fewer then: it takes several times as long.
const Raced = false
