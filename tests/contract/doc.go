// Package contract holds one suite for each port, which every implementation
// has to pass: the simulated one in process, the simulated one over its socket,
// and the real one. What the suite asks for is what actors rely on; what
// implementations do beyond that, or differently, it leaves open.
package contract
