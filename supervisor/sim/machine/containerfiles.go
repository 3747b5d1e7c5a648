package machine

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// ContainerFiles are the files of containers that are no volumes.
type ContainerFiles struct {
	Calls
	// Hosts are the addresses in the /etc/hosts of each pod, by its name.
	Hosts map[string][]string
	// Said is the termination message of each container, Log the end of its log, by its
	// name.
	Said, Log map[string]string
	// Env are files in volumes, by volume/path.
	Env map[string]string
	// Made is how many incarnations of containers have their files.
	Made int
}

var _ port.ContainerFiles = (*ContainerFiles)(nil)

func newContainerFiles(clock simport.Clock) *ContainerFiles {
	return &ContainerFiles{
		Calls: Calls{clock: clock}, Hosts: map[string][]string{}, Said: map[string]string{}, Log: map[string]string{},
	}
}

// MakeFiles implements port.ContainerFiles.
func (f *ContainerFiles) MakeFiles(ctx context.Context, r port.MakeFiles, done func(port.MadeFiles, error)) {
	made := port.MadeFiles{Attempt: r.Attempt}
	call := Call{Verb: "MakeFiles", Pod: string(r.Pod.UID)}
	f.do(ctx, call, diskLatency, func(err error) { done(made, err) }, func() error {
		f.Made++
		if len(r.IPs) > 0 || f.Hosts[r.Pod.Name] == nil {
			f.Hosts[r.Pod.Name] = r.IPs
		}
		made.Mounts = []containerplan.Mount{{Name: "etc-hosts", ContainerPath: "/etc/hosts"}}
		return nil
	})
}

// ReadEnvFiles implements port.ContainerFiles.
func (f *ContainerFiles) ReadEnvFiles(
	ctx context.Context, r port.ReadEnvFiles, done func([]*containerplan.EnvFileValues, error),
) {
	var out []*containerplan.EnvFileValues
	call := Call{Verb: "ReadEnvFiles", Pod: string(r.Pod.UID)}
	f.do(ctx, call, diskLatency, func(err error) { done(out, err) }, func() error {
		var err error
		out, err = containerplan.ReadEnvFiles(r.Files, func(file containerplan.EnvFile) ([]byte, error) {
			if text, ok := f.Env[file.Volume+"/"+file.Path]; ok && file.Root != "" {
				return []byte(text), nil
			}
			return nil, nil
		})
		if err != nil {
			return &port.Error{Kind: port.InvalidConfig, Verb: call.Verb, Object: call.object(), Detail: err.Error()}
		}
		return nil
	})
}

// WriteHosts implements port.ContainerFiles.
func (f *ContainerFiles) WriteHosts(ctx context.Context, r port.WriteHosts, done func(error)) {
	f.do(ctx, Call{Verb: "WriteHosts", Pod: string(r.Pod.UID)}, diskLatency, done, func() error {
		f.Hosts[r.Pod.Name] = r.IPs
		return nil
	})
}

// TerminationMessage implements port.ContainerFiles.
func (f *ContainerFiles) TerminationMessage(ctx context.Context, r port.TerminationMessage, done func(string, error)) {
	var said string
	call := Call{Verb: "TerminationMessage", Pod: string(r.Pod.UID)}
	f.do(ctx, call, diskLatency, func(err error) { done(said, err) }, func() error {
		said = f.Said[r.Container]
		if said == "" && r.FromLog {
			said = f.Log[r.Container]
		}
		return nil
	})
}
