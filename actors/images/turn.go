package images

// itsTurn begins anew for a container whose image was being pulled ahead of its turn (imagepull.Request): what failed
// meanwhile was no failure of its start, and the image may have come to the registry since. A pull under way becomes
// its own.
func (i *image) itsTurn(w *waiter) {
	if !i.failures[w.pod.UID].inTurn {
		delete(i.failures, w.pod.UID)
	}
}
