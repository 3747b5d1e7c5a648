// Package nodelog answers log queries of the node (KEP-2258): `kubectl get --raw
// "/api/v1/nodes/NODE/proxy/logs/?query=kubelet"`.
//
//	query=NAME, …  ─► the journal has a unit NAME.service ─► journalctl --unit=NAME
//	               └► otherwise the file NAME, NAME.log or NAME/NAME.log
//	query=/PATH    ─► the file PATH
//
// Files are those of one file system: the log directory, which no path leads out of. The exact texts and
// status codes of mistakes are the kubelet's, because users know them.
package nodelog
