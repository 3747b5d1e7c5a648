package config

// actsOn are the fields of KubeletConfiguration that this version acts on. One
// that a user sets and that is not here is warned of by name: a setting must
// not be lost in silence. docs/operating.md shows the same list.
var actsOn = map[string]struct{}{
	"apiVersion": {}, "kind": {},
	"address": {}, "authentication": {}, "authorization": {}, "enableContentionProfiling": {}, "enableDebugFlagsHandler": {},
	"enableDebuggingHandlers": {}, "enableProfilingHandler": {}, "enableServer": {}, "enableSystemLogHandler": {},
	"port": {}, "readOnlyPort": {}, "rotateCertificates": {}, "serverTLSBootstrap": {}, "streamingConnectionIdleTimeout": {}, "tlsCertFile": {}, "tlsCipherSuites": {},
	"tlsMinVersion": {}, "tlsPrivateKeyFile": {},
	"allowedUnsafeSysctls": {}, "cgroupDriver": {}, "cgroupRoot": {}, "cgroupsPerQOS": {}, "clusterDNS": {}, "clusterDomain": {},
	"configMapAndSecretChangeDetectionStrategy": {}, "containerLogMaxFiles": {}, "containerLogMaxSize": {}, "containerLogMaxWorkers": {},
	"containerLogMonitorInterval": {}, "containerRuntimeEndpoint": {}, "cpuCFSQuota": {}, "cpuCFSQuotaPeriod": {}, "crashLoopBackOff": {},
	"enforceNodeAllocatable": {}, "failCgroupV1": {}, "failSwapOn": {}, "featureGates": {}, "fileCheckFrequency": {},
	"healthzBindAddress": {}, "healthzPort": {}, "httpCheckFrequency": {}, "imageServiceEndpoint": {},
	"contentType": {}, "enableControllerAttachDetach": {}, "eventBurst": {}, "eventRecordQPS": {},
	"kubeAPIBurst": {}, "kubeAPIQPS": {}, "nodeLeaseDurationSeconds": {}, "nodeStatusMaxImages": {},
	"nodeStatusReportFrequency": {}, "nodeStatusUpdateFrequency": {}, "providerID": {}, "registerNode": {}, "registerWithTaints": {},
	"kubeReserved": {}, "kubeReservedCgroup": {}, "logging": {}, "maxParallelImagePulls": {}, "maxPods": {}, "podLogsDir": {}, "podPidsLimit": {},
	"podsPerCore": {}, "qosReserved": {}, "resolvConf": {}, "runOnce": {}, "runtimeRequestTimeout": {},
	"seccompDefault": {}, "serializeImagePulls": {}, "singleProcessOOMKill": {}, "staticPodPath": {}, "staticPodURL": {},
	"staticPodURLHeader": {}, "systemReserved": {}, "systemReservedCgroup": {},
}
