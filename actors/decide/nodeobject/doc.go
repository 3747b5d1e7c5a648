// Package nodeobject decides the content of this node's Node object, from the configuration and the facts about machine
// and runtime.
//
// [Node] decides which nodes the terms of a node selector mean (API NodeSelector).
package nodeobject
