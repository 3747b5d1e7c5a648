package cri

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/port"
)

const (
	pullImage           = "PullImage"
	runPodSandbox       = "RunPodSandbox"
	checkpointContainer = "CheckpointContainer"
	stopContainer       = "StopContainer"
	stopPodSandbox      = "StopPodSandbox"
)

// maxDetail bounds the runtime's message, which goes into a pod's status.
const maxDetail = 2048

// translateError turns a call's error into a *port.Error, nil into nil. ctxErr is the error of
// the call's own context: it tells the call's deadline from one inside the runtime.
func translateError(k call, err, ctxErr error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*port.Error](err); ok {
		out := *e
		out.Verb, out.Object = k.method, short(k.object)
		return &out
	}
	detail := words(k.method, err)
	out := &port.Error{Verb: k.method, Object: short(k.object), Detail: detail}
	switch {
	case !gaveUp(err, ctxErr):
		if out.Kind = kind(k.method, err, detail); out.Kind == port.Stuck {
			out.Detail = lostTaskAdvice(detail)
		}
	case errors.Is(ctxErr, context.DeadlineExceeded):
		out.Kind, out.Detail = port.Deadline, "no answer in time"
	default:
		out.Kind, out.Detail = port.Canceled, "the agent stopped waiting for the call"
	}
	return out
}

// gaveUp reports whether the call ended with its context and not by an answer.
func gaveUp(err, ctxErr error) bool {
	if ctxErr == nil {
		return false
	}
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Canceled ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// kind finds the kind of a failure by the runtime's known messages, and then by the gRPC code.
// The code comes last, because runtimes give most failures the code Unknown, and a code from deep
// inside may be about something else.
func kind(method string, err error, detail string) port.ErrorKind {
	code := status.Code(err) // Unknown if err is no status
	if code == codes.Unimplemented {
		return port.Unsupported
	}
	if method == pullImage {
		return pullKind(code, detail)
	}
	for _, t := range runtimeTexts {
		if (t.method == "" || t.method == method) && t.pattern.MatchString(detail) {
			return t.kind
		}
	}
	return codeKind(method, code)
}

var (
	loading = regexp.MustCompile(`server is not initialized yet`)
	badName = regexp.MustCompile(`failed to parse image reference|invalid reference format|could not parse image`)
)

// text is a known message of a runtime.
type text struct {
	kind    port.ErrorKind
	method  string // any, if empty
	pattern *regexp.Regexp
}

// runtimeTexts are tried in order. The sources are containerd
// (pkg/cri/server, since 2.0 internal/cri/server, and registrar) and CRI-O
// (server, internal/registrar, containers/storage).
var runtimeTexts = []text{
	{port.Stuck, "", lostTask},
	{port.NameReserved, "", regexp.MustCompile(`\bis (already )?reserved\b|error reserving (pod|ctr) name`)},
	// The plugin is still loading its state.
	{port.Unavailable, "", loading},
	{port.InvalidImageName, "", badName},
	// An image is gone from the node, the container's or that of a volume; if anything else is missing, it is the sandbox.
	{port.ImageNotFound, "CreateContainer",
		regexp.MustCompile(`failed to (resolve|get) image|image not known|locating image|image ".*" does not exist locally`)},
	{port.NetworkNotReady, runPodSandbox,
		regexp.MustCompile(`cni (plugin|config) (not |un)initialized|No CNI configuration file`)},
	{port.InvalidConfig, runPodSandbox,
		regexp.MustCompile(`no runtime for ".*" is configured|failed to find runtime handler`)},
	{port.InvalidConfig, "",
		regexp.MustCompile(
			`unable to find user|unable to find group|no users found|invalid user` +
				`|recursive read-only mount.* not supported|RROUnsupported`,
		)},
	{port.StateConflict, "", regexp.MustCompile(
		`container is in \S+ state|container is in removing state|is already in (starting|removing) state` +
			`|is in starting state|container is still running|container state is unknown|sandbox container ".*" is not running` +
			`|is not in created state|is not created or running|container is not running`)},
	{port.NotFound, "",
		regexp.MustCompile(
			`could not find (container|sandbox|pod)|with ID starting with .* not found|specified (container|sandbox) not found`,
		)},
	// containerd 2.2 says so with the code Unknown.
	{port.Unsupported, "UpdatePodSandboxResources", regexp.MustCompile(`not implemented`)},
	// containerd ends an exec at its timeout with this message and any code.
	{port.Deadline, "ExecSync", regexp.MustCompile(`timeout .* exceeded|command timed out`)},
	{port.Deadline, "", regexp.MustCompile(`context deadline exceeded$`)},
}

// codeKind is the kind of a gRPC code alone.
func codeKind(method string, code codes.Code) port.ErrorKind {
	switch code {
	case codes.NotFound:
		if method == runPodSandbox {
			return port.Other // a dependency is missing, such as the pause image
		}
		return port.NotFound
	case codes.AlreadyExists:
		return port.NameReserved
	case codes.Unavailable:
		return port.Unavailable
	case codes.DeadlineExceeded:
		return port.Deadline
	case codes.Canceled:
		return port.Canceled
	case codes.InvalidArgument:
		return port.InvalidConfig
	case codes.ResourceExhausted:
		switch method {
		case "Exec", "Attach", "PortForward": // it has promised as many streams as it can
			return port.TooManyRequests
		}
		return port.Other
	case codes.FailedPrecondition:
		return port.StateConflict
	case codes.Unimplemented:
		return port.Unsupported
	default:
		return port.Other
	}
}

// grpcNoise is gRPC's text around the runtime's own message.
var grpcNoise = regexp.MustCompile(
	`rpc error: code = \w+ desc = |connection error: desc = |error reading server preface: ` +
		`|transport: (Error while dialing: )?`,
)

// words are the message of a failed call. Programs match those of a pull, of a sandbox and of what can't be stopped in
// events and in the status of pods, and those of a checkpoint in its answer, with gRPC's words around them.
func words(method string, err error) string {
	switch method {
	case pullImage:
		if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown { // which says nothing
			return bounded(s.Message())
		}
		return bounded(err.Error())
	case runPodSandbox, checkpointContainer, stopContainer, stopPodSandbox:
		return bounded(err.Error())
	default:
		return oneLine(err)
	}
}

// oneLine is the message of err alone, on one line.
func oneLine(err error) string {
	words := err.Error()
	if s, ok := status.FromError(err); ok {
		words = s.Message()
	}
	words = grpcNoise.ReplaceAllString(words, "")
	words = strings.Join(strings.Fields(words), " ")
	if quoted, ok := strings.CutPrefix(words, `"`); ok && !strings.Contains(strings.TrimSuffix(quoted, `"`), `"`) {
		words = strings.TrimSuffix(quoted, `"`)
	}
	return bounded(words)
}

func bounded(words string) string {
	if len(words) > maxDetail {
		words = strings.ToValidUTF8(words[:maxDetail], "") + "…"
	}
	return words
}

// unlessGone drops a NotFound error: stop and remove are idempotent, but not in every runtime.
func unlessGone(err error) error {
	if err == nil || status.Code(err) == codes.NotFound {
		return nil
	}
	if kind("", err, oneLine(err)) == port.NotFound {
		return nil
	}
	return err
}

// notOurs is the error for an object of another client.
func notOurs(k call) error {
	return &port.Error{
		Kind: port.NotFound, Verb: k.method, Object: short(k.object), Detail: "it does not belong to a pod of this node",
	}
}
