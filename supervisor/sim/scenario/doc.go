// Package scenario is the language of scenario files: the steps of a simulated run, and
// its expectations.
//
//	name: rolling update
//	nodes: {count: 10, cpu: "4", memory: 16Gi}
//	images:
//	- {name: web:v1, size: 40Mi}
//	- {name: web:v2, size: 41Mi}
//	steps:
//	- create: {workload: web, replicas: 60, image: web:v1, cpu: 100m}
//	- wait: {workload: web, ready: 60, within: 2m}
//	- always: {workload: web, ready: ">=45"}
//	- update: {workload: web, image: web:v2, maxUnavailable: 25%}
//	- wait: {workload: web, ready: 60, image: web:v2, within: 10m}
//
// Steps go one after the other; one with `at` waits for that time. A file is
// read strictly: a field that is not known, a name that was not created before,
// a size that can't be, are told with file, line and field, before anything
// runs. The package only reads and checks; running it is the world's.
package scenario
