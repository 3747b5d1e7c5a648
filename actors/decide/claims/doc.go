// Package claims has the decisions about ResourceClaims on a node (dynamic resource allocation, KEP-4381): which claims
// a pod needs, whether it may use them, and which devices its containers get.
//
// # The checkpoint
//
// It reads and writes the checkpoint of the kubelet's DRA manager (dra_manager_state in its root directory): which
// ResourceClaims are prepared on a node, for which pods, and with which devices (KEP-4381). A node can so change
// between a kubelet and this agent while pods use claims.
//
//	{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",
//	          \"ClaimInfoStateList\":[…]}","Checksum":123}
//
// The checksum is the CRC-32 (IEEE) of Data.
package claims
