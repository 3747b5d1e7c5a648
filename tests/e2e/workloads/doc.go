// Package workloads has charts and static pods that are in wide use: the fields of their pods as they are published,
// each with the place from which they were taken, in a file. A stand-in takes the place of each image
// (tests/images/standin). Only images, ports of the host and directories of the host are others.
package workloads
