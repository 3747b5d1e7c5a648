package gate

// Advice is what people are told who ask why a container does not run. {container}, {image} and {logs} stand for the
// name of the container, its image, and the command that shows its newest logs.
type Advice struct {
	// Text says what is wrong, without an end: the message of the status follows.
	Text string
	// Next says what to do.
	Next string
}

// advice is, by gate and by waiting reason, what people are told. A gate without a reason of its own has one for "".
var advice = [...]map[string]Advice{
	Backoff: {
		"CrashLoopBackOff": {
			"Container {container} is in a crash loop and waits for the end of its restart backoff",
			"See the logs of its last run: {logs} --previous.",
		},
		"PostStartHookError": {
			"The postStart hook of container {container} failed", "Correct the hook. The container is restarted automatically.",
		},
	},
	Image: {
		"ErrImagePull": noPull, "ImagePullBackOff": noPull, "RegistryUnavailable": noPull, "ImageInspectError": noPull,
		"SignatureValidationFailed": noPull,
		"InvalidImageName": {
			"Container {container} is waiting (InvalidImageName)", "Correct the image name in the pod.",
		},
		"ErrImageNeverPull": {
			"Container {container} is waiting (ErrImageNeverPull)",
			"The pull policy is Never: load the image onto the node, or change the policy.",
		},
	},
	Volumes: {"": {
		"A volume cannot be mounted",
		"Create the object that the volume refers to, or correct the pod. The mount is retried automatically.",
	}},
	Cgroup: {"": {
		"The cgroup of the pod cannot be created",
		"Check the cgroup file system of the node and the log of troupe. It is retried automatically.",
	}},
	Claims: {"": {
		"The resource claims of the pod are not prepared",
		"Check the ResourceClaims of the pod and their driver on this node. It is retried automatically.",
	}},
	Sandbox: {"": {
		"The sandbox of the pod cannot be created",
		"Check the container runtime and its network plugin (crictl info). The sandbox is retried automatically.",
	}},
	Retry: {
		"CreateContainerConfigError": noCreate, "CreateContainerError": noCreate, "RunContainerError": noStart,
		"PreStartHookError": noStart,
	},
}

var (
	noPull = Advice{
		"Container {container}: the image {image} cannot be pulled",
		"Check the image name, the pull secrets and the connection to the registry (crictl pull). The pull is retried " +
			"automatically.",
	}
	noCreate = Advice{
		"Container {container} cannot be created",
		"Create the missing ConfigMap, Secret, key or path, or correct the pod. The container is retried automatically.",
	}
	noStart = Advice{
		"Container {container} cannot be started",
		"Correct its command or its security context. The start is retried automatically.",
	}
)

// AdviceOn is what people are told of a container that waits at a gate for a reason. A reason of a gate's own is found
// also if the gate is not known: the status is of an earlier agent. is is false for a gate that opens by itself.
func AdviceOn(g Gate, reason string) (a Advice, is bool) {
	for _, of := range advice {
		if a, is = of[reason]; is && reason != "" {
			return a, true
		}
	}
	if int(g) < len(advice) {
		a, is = advice[g][""]
	}
	return a, is
}
