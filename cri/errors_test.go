package cri

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const anID = "95d48f2f742912589b9a54379513c1d1b5def82ee68ed351627df38099731033"

// TestErrorKinds holds what runtimes really say, as read on containerd 1.6.20
// or in the issue trackers of containerd, CRI-O and Kubernetes.
func TestErrorKinds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		code   codes.Code
		text   string
		want   port.ErrorKind
	}{
		{"containerd sandbox name", "RunPodSandbox", codes.Unknown, `failed to reserve sandbox name "web_default_3f0c_0": name "web_default_3f0c_0" is reserved for "0bcda7af"`, port.NameReserved},
		{"containerd container name", "CreateContainer", codes.Unknown, `failed to reserve container name "app_web_default_3f0c_0": name "app_web_default_3f0c_0" is reserved for "95d4"`, port.NameReserved},
		{"CRI-O sandbox name", "RunPodSandbox", codes.Unknown, `Kubelet may be retrying requests that are timing out in CRI-O due to system load: error reserving pod name k8s_podbb-ctr-1-0_ns_uid_1 for id b421a43db43086a3c98e5ecdc556aa16: name is reserved`, port.NameReserved},
		{"CRI-O container name after a timeout", "CreateContainer", codes.Unknown, `Kubelet may be retrying requests that are timing out in CRI-O due to system load: context deadline exceeded: error reserving ctr name k8s_minio_pool-0-3_ns_uid_0 for id 8424e8fd: name is reserved`, port.NameReserved},
		{"already exists", "CreateContainer", codes.AlreadyExists, `whatever`, port.NameReserved},

		{"containerd too many streams", "Exec", codes.ResourceExhausted, `maximum number of in-flight requests exceeded`, port.TooManyRequests},
		{"a message too long", "ListContainers", codes.ResourceExhausted, `grpc: received message larger than max`, port.Other},
		{"containerd no sandbox", "PodSandboxStatus", codes.NotFound, `an error occurred when try to find sandbox: not found`, port.NotFound},
		{"containerd no sandbox to create in", "CreateContainer", codes.NotFound, `failed to find sandbox id "nope": not found`, port.NotFound},
		{"containerd no image to create from", "CreateContainer", codes.NotFound, `failed to resolve image "localhost/nope:1": not found`, port.ImageNotFound},
		{"containerd no image of a volume", "CreateContainer", codes.NotFound, `ImageVolumeMountFailed: failed to resolve image "sha256:ab": not found`, port.ImageNotFound},
		{"CRI-O no image of a volume", "CreateContainer", codes.Unknown, `ImageVolumeMountFailed: image "sha256:ab" does not exist locally`, port.ImageNotFound},
		{"no subPath in the image of a volume", "CreateContainer", codes.Unknown, `ImageVolumeMountFailed: failed to ensure image subpath "x" in "/v": no such file or directory`, port.Other},
		{"containerd no pause image", "RunPodSandbox", codes.NotFound, `failed to get sandbox image "registry.k8s.io/pause:3.6": failed to pull image "registry.k8s.io/pause:3.6": not found`, port.Other},
		{"containerd runtime class", "RunPodSandbox", codes.Unknown, `failed to get sandbox runtime: no runtime for "gvisor" is configured`, port.InvalidConfig},
		{"containerd no network", "RunPodSandbox", codes.Unknown, `failed to setup network for sandbox "95d4": cni plugin not initialized`, port.NetworkNotReady},
		{"CRI-O no network", "RunPodSandbox", codes.Unknown, `failed to create pod network sandbox k8s_web_0(95d4): No CNI configuration file in /etc/cni/net.d/. Has your network provider started?`, port.NetworkNotReady},
		{"a network plugin fails", "RunPodSandbox", codes.Unknown, `failed to setup network for sandbox "95d4": plugin type="bridge" failed (add): no IP addresses available`, port.Other},
		{"CRI-O no container", "ContainerStatus", codes.NotFound, `could not find container "19dbbad284433": container with ID starting with 19dbbad284433 not found: ID does not exist`, port.NotFound},
		{"CRI-O no container, no code", "StartContainer", codes.Unknown, `container with ID starting with default-sandbox0 not found: ID does not exist`, port.NotFound},

		{"containerd state", "StartContainer", codes.Unknown, `failed to set starting state for container "95d4": container is in CONTAINER_RUNNING state`, port.StateConflict},
		{"containerd removing", "RemoveContainer", codes.Unknown, `failed to set removing state for container "95d4": container is already in removing state`, port.StateConflict},
		{"containerd lost task", "RemoveContainer", codes.FailedPrecondition, `failed to delete containerd container "95d4": cannot delete running task 95d4: failed precondition`, port.Stuck},
		{"containerd lost task, sandbox", "RemovePodSandbox", codes.FailedPrecondition, `failed to remove container "95d4": failed to delete containerd container "95d4": cannot delete running task 95d4: failed precondition`, port.Stuck},
		{"containerd dead sandbox", "StartContainer", codes.Unknown, `sandbox container "0bcd" is not running`, port.StateConflict},
		{"containerd exec in a stopped container", "ExecSync", codes.Unknown, `failed to exec in container: container is in CONTAINER_EXITED state`, port.StateConflict},
		{"CRI-O state", "StartContainer", codes.Unknown, `container 7bf4275d70ac is not in created state: running`, port.StateConflict},
		{"CRI-O exec in a stopped container", "ExecSync", codes.NotFound, `container is not created or running`, port.StateConflict},

		{"containerd exec timeout", "ExecSync", codes.DeadlineExceeded, `failed to exec in container: timeout 1s exceeded: context deadline exceeded`, port.Deadline},
		{"CRI-O exec timeout", "ExecSync", codes.Unknown, `command timed out`, port.Deadline},
		{"timeout within the runtime", "RunPodSandbox", codes.Unknown, `failed to create containerd task: context deadline exceeded`, port.Deadline},
		{"plugin loading", "ListPodSandbox", codes.Unknown, `server is not initialized yet`, port.Unavailable},
		{"socket gone", "Version", codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial unix /run/x.sock: connect: no such file or directory"`, port.Unavailable},
		{"no such call", "GetContainerEvents", codes.Unimplemented, `method GetContainerEvents not implemented`, port.Unsupported},
		{"no such call, of containerd 2.2", "UpdatePodSandboxResources", codes.Unknown, `not implemented yet`, port.Unsupported},
		{"no CRI at all", "Version", codes.Unimplemented, `unknown service runtime.v1.RuntimeService`, port.Unsupported},
		{"unknown user", "StartContainer", codes.Unknown, `unable to find user nobody2: no matching entries in passwd file`, port.InvalidConfig},
		{"start error", "StartContainer", codes.Unknown, `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/nosuch": stat /nosuch: no such file or directory: unknown`, port.Other},
		{"too large", "ListContainers", codes.ResourceExhausted, `grpc: received message larger than max (20971520 vs. 16777216)`, port.Other},

		{"containerd no image", "PullImage", codes.NotFound, `failed to pull and unpack image "docker.io/library/nope:1": failed to resolve reference "docker.io/library/nope:1": docker.io/library/nope:1: not found`, port.ImageNotFound},
		{"containerd no image, no code", "PullImage", codes.Unknown, `failed to pull and unpack image "r.io/nope:1": failed to resolve reference "r.io/nope:1": r.io/nope:1: not found`, port.Other},
		{"containerd no platform", "PullImage", codes.NotFound, `failed to pull and unpack image "r.io/x:1": no match for platform in manifest sha256:ab: not found`, port.ImageNotFound},
		{"CRI-O no image", "PullImage", codes.Unknown, `reading manifest latest in registry.mydomain/image: manifest unknown: manifest unknown`, port.Other},
		{"docker hub denies what is not there", "PullImage", codes.Unknown, `failed to pull and unpack image "docker.io/image/doesnotexist:latest": failed to resolve reference "docker.io/image/doesnotexist:latest": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`, port.Other},
		{"containerd no credentials", "PullImage", codes.Unknown, `failed to pull and unpack image "r.io/p:1": failed to resolve reference "r.io/p:1": pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`, port.Other},
		{"containerd token refused", "PullImage", codes.Unknown, `failed to pull and unpack image "r.io/p:1": failed to resolve reference "r.io/p:1": failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://r.io/token: 401 Unauthorized`, port.Other},
		{"CRI-O unauthorized", "PullImage", codes.Unknown, "Error reading manifest latest in docker.io/crio/busybox: errors:\ndenied: requested access to the resource is denied\nunauthorized: authentication required", port.Other},
		{"containerd no registry", "PullImage", codes.Unknown, `failed to pull and unpack image "localhost:1/nope:1": failed to resolve reference "localhost:1/nope:1": failed to do request: Head "http://localhost:1/v2/nope/manifests/1": dial tcp 127.0.0.1:1: connect: connection refused`, port.Other},
		{"containerd no name", "PullImage", codes.Unknown, `failed to do request: Head "https://nosuch.invalid/v2/x/manifests/1": dial tcp: lookup nosuch.invalid: no such host`, port.Other},
		{"CRI-O no registry", "PullImage", codes.Unknown, `pinging docker registry returned: Get http://registry-1.docker.io/v2/: dial tcp 34.199.40.84:80: i/o timeout`, port.Other},
		{"CRI-O bad gateway", "PullImage", codes.Unknown, `error pinging docker registry 10.0.0.1:5000: invalid status code from registry 502 (Bad Gateway)`, port.Other},
		{"containerd 503", "PullImage", codes.Unknown, `failed to resolve reference "r.io/x:1": unexpected status from HEAD request to https://r.io/v2/x/manifests/1: 503 Service Unavailable`, port.Other},
		{"rate limit", "PullImage", codes.Unknown, `failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/x/manifests/sha256:ab: 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit.`, port.Other},
		{"no progress", "PullImage", codes.DeadlineExceeded, `failed to pull and unpack image "r.io/big:1": context deadline exceeded`, port.Other},
		{"runtime loading", "PullImage", codes.Unknown, `server is not initialized yet`, port.Unavailable},
		{"runtime gone", "PullImage", codes.Unavailable, `error reading from server: EOF`, port.Unavailable},
		{"no progress", "PullImage", codes.Canceled, `failed to pull and unpack image "r.io/big:1": context canceled`, port.Other},
		{"CRI's word on the registry", "PullImage", codes.Unknown, `RegistryUnavailable: pull QPS exceeded`, port.Other},
		{"CRI's word on the signature", "PullImage", codes.Unknown, `SignatureValidationFailed: unable to validate signature: fulcio email mismatch`, port.Other},
		{"policy", "PullImage", codes.Unknown, `copying system image from manifest list: Source image rejected: A signature was required, but no signature exists`, port.Other},
		{"bad name", "PullImage", codes.Unknown, `failed to parse image reference "UPPER/x": invalid reference format: repository name must be lowercase`, port.InvalidImageName},
		{"bad name in a status", "ImageStatus", codes.InvalidArgument, `failed to parse image reference "A": invalid reference format`, port.InvalidImageName},
		{"disk full", "PullImage", codes.Unknown, `failed to pull and unpack image "r.io/x:500": failed to extract layer sha256:ab: write /x: no space left on device: unknown`, port.Other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := translateError(call{method: tt.method, object: anID}, status.Error(tt.code, tt.text), nil)
			if got := port.KindOf(err); got != tt.want {
				t.Errorf("kind %q, want %q\n%v", got, tt.want, err)
			}
			if s := err.Error(); tt.method != pullImage && tt.method != runPodSandbox && (strings.ContainsAny(s, "\n\t") || strings.Contains(s, "rpc error") || strings.Contains(s, "transport:")) {
				t.Errorf("not one clean line: %q", s)
			}
		})
	}
}

func TestErrorWords(t *testing.T) {
	nested := status.Error(codes.Unknown, "failed to pull:\n\trpc error: code = NotFound desc = no such thing")
	dead := status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial unix /run/x.sock: connect: no such file or directory"`)
	for _, tt := range []struct {
		name string
		call call
		err  error
		ctx  error
		want string
	}{
		{"nested", call{method: "StartContainer", object: anID}, nested, nil,
			"StartContainer 95d48f2f74291: failed to pull: no such thing"},
		{"dead", call{method: "Version"}, dead, nil,
			"Version: unavailable: dial unix /run/x.sock: connect: no such file or directory"},
		{"our deadline", call{method: "PullImage", object: "a/b:1"}, status.Error(codes.DeadlineExceeded, "context deadline exceeded"), context.DeadlineExceeded,
			"PullImage a/b:1: deadline exceeded: no answer in time"},
		{"given up", call{method: "PullImage", object: "a/b:1"}, status.Error(codes.Canceled, "context canceled"), context.Canceled,
			"PullImage a/b:1: canceled: the agent stopped waiting for the call"},
		{"answered just then", call{method: "StartContainer", object: "c"}, status.Error(codes.NotFound, "no such container"), context.Canceled,
			"StartContainer c: not found: no such container"},
		{"not from gRPC", call{method: "RunPodSandbox", object: "default/web"}, errors.New("mkdir /x: read-only file system"), nil,
			"RunPodSandbox default/web: mkdir /x: read-only file system"},
		{"ours already", call{method: "PullImage", object: "a"}, &port.Error{Kind: port.Deadline, Detail: "silent"}, nil,
			"PullImage a: deadline exceeded: silent"},
	} {
		check.Equal(t, translateError(tt.call, tt.err, tt.ctx).Error(), tt.want, "%s:\n got", tt.name)
	}
	// A pull, a sandbox, a stop and a checkpoint keep the runtime's words, as programs match them.
	for _, tt := range []struct {
		method string
		err    error
		want   string
	}{
		{runPodSandbox, status.Error(codes.Unknown, "failed to setup network"), "rpc error: code = Unknown desc = failed to setup network"},
		{stopContainer, status.Error(codes.Unknown, "failed to kill"), "rpc error: code = Unknown desc = failed to kill"},
		{stopPodSandbox, nested, "rpc error: code = Unknown desc = failed to pull:\n\trpc error: code = NotFound desc = no such thing"},
		{pullImage, status.Error(codes.NotFound, "failed to pull:\n\tno such tag"), "rpc error: code = NotFound desc = failed to pull:\n\tno such tag"},
		{pullImage, nested, "failed to pull:\n\trpc error: code = NotFound desc = no such thing"},
		{pullImage, dead, `rpc error: code = Unavailable desc = ` + status.Convert(dead).Message()},
		{pullImage, errors.New("no status"), "no status"},
		{checkpointContainer, status.Error(codes.Unimplemented, "unknown method CheckpointContainer"), "rpc error: code = Unimplemented desc = unknown method CheckpointContainer"},
	} {
		if e, _ := errors.AsType[*port.Error](translateError(call{method: tt.method, object: "a"}, tt.err, nil)); e.Detail != tt.want {
			t.Errorf("got  %q\nwant %q", e.Detail, tt.want)
		}
	}
	long := translateError(call{method: "X"}, status.Error(codes.Unknown, strings.Repeat("ü ", maxDetail)), nil)
	if e, _ := errors.AsType[*port.Error](long); len(e.Detail) > maxDetail+len("…") {
		t.Errorf("detail of %d bytes", len(e.Detail))
	}
}

func TestUnlessGone(t *testing.T) {
	for _, gone := range []error{
		nil,
		status.Error(codes.NotFound, "an error occurred when try to find container: not found"),
		status.Error(codes.Unknown, `could not find container "x"`),
	} {
		if err := unlessGone(gone); err != nil {
			t.Errorf("%v counts as a failure", err)
		}
	}
	if unlessGone(status.Error(codes.Unknown, "failed to kill")) == nil {
		t.Error("a failure was dropped")
	}
}
