// Package podspec is the vocabulary of a pod: what follows from its spec and metadata alone, whatever the runtime
// shows. Other packages ask here, so that each rule exists once (docs/decisions/0029).
//
//	containers.go  all containers with their kinds, find by name, sidecars
//	restart.go     restart policy and its rules
//	origin.go      where a pod comes from: file, http, api, or only the runtime
//	grace.go       the termination grace period
//	phase.go       whether a pod has ended for good
//	qos.go         the quality of service class
//	resources.go   requests and limits of the pod as a whole
//	resourcelist.go  arithmetic on lists of resources (API type ResourceList)
//	downward_*.go  the downward API: fields, requests and limits as text
//	key.go         the private key of a pod, and its certificate, as values that show nothing of the key
package podspec
