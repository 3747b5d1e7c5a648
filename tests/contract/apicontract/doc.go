// Package apicontract holds the suite for port.API, which every implementation
// has to pass: the simulated apiserver, and the real one behind our client.
// What the suite asks for is what actors rely on; what implementations do
// beyond that, or differently, it leaves open.
//
// On a virtual clock the suite steps time (Subject.Until, Subject.Pass); with
// those nil it waits on the machine's clock. It makes objects of its own, under
// names that nobody else has, and removes them; so a server that is in use will
// do, if it lets the subject do everything. It asks for no controller: what one
// of kube-controller-manager's would do to an object it neither needs nor minds.
package apicontract
