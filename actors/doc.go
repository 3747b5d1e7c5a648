// Package actors is the root of troupe's actors: shells that own facts, send
// and receive messages, and perform what the pure decisions below decide say.
//
//	<node>                     node     makes and connects the others; what fails when one can't be kept running
//	├── pods                   pods     which pods this node is to run; what people are shown
//	│   └── <UID> …            pod      one pod: lifecycle, containers, backoff, hooks, status
//	├── images                 images   one pull per image, a bounded number at once
//	├── volumes                volumes  one lane per volume
//	├── probes                 probes   how containers are: schedules of all probes, one timer
//	├── gc                     gc       dead containers, sandboxes, directories, links of logs
//	├── sources                sources  manifests of a directory and a URL
//	├── pleg                   pleg     what happens in the runtime: events and lists
//	│                                   and, with an apiserver:
//	├── apipods                apipods  what pods the apiserver has for this node
//	├── status                 status   how pods are, told to the apiserver; the end of those deleted
//	├── mirrors                mirrors  mirror pods of static pods
//	└── nodestatus             nodestatus  the node's object and lease
//
// Who tells whom what stands at the top of each package, with what a lost, a
// late or a repeated message does. What actors need of the world is declared in
// port; the daemon, the simulation and the chaos harness connect it.
package actors
