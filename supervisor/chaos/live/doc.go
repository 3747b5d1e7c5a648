// Package live runs cases of the chaos harness against a real node: a daemon, a container
// runtime and an apiserver. It stands between them with proxies, does the operations of a case,
// makes its faults, and holds the rules of supervisor/invariants against what it sees.
//
//	            ┌──────────── Session ─────────────┐
//	agent ──► criproxy ──────────────────────────► runtime
//	  │         calls, events of the agent           ▲ its events and lists, past the proxy
//	  └──► tcpproxy ──► apiproxy ────────────────► apiserver
//	         cut off      requests                   ▲ pods, and a watch of them
//
// Each case runs in the simulator first. The ends of its pods in both worlds are compared: a
// difference is a fault of the simulator or of the daemon.
package live
