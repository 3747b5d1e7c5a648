package cri

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func (f *fakeRuntime) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if r.GetContainerId() == "gone" {
		return nil, status.Error(codes.NotFound, `an error occurred when try to find container "gone": not found`)
	}
	return &runtimeapi.ExecResponse{Url: "http://runtime/exec?" + r.String()}, nil
}

func (f *fakeRuntime) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return &runtimeapi.AttachResponse{Url: "http://runtime/attach?" + r.String()}, nil
}

func (f *fakeRuntime) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return &runtimeapi.PortForwardResponse{Url: "http://runtime/portforward?" + r.String()}, nil
}

func TestStreams(t *testing.T) {
	c := dial(t, &fakeRuntime{}, nil)
	shell := port.StreamOptions{Stdin: true, Stdout: true, TTY: true}
	for _, tt := range []struct {
		name string
		call func(done func(string, error))
		want string
	}{
		{"exec", func(done func(string, error)) {
			c.Exec(t.Context(), port.ExecStream{ContainerID: "c1", Command: []string{"sh", "-c", "ls"}, StreamOptions: shell}, done)
		}, "http://runtime/exec?" + (&runtimeapi.ExecRequest{ContainerId: "c1", Cmd: []string{"sh", "-c", "ls"}, Stdin: true, Stdout: true, Tty: true}).String()},
		{"exec without a terminal", func(done func(string, error)) {
			o := port.StreamOptions{Stdin: true, Stderr: true}
			c.Exec(t.Context(), port.ExecStream{ContainerID: "c1", Command: []string{"cat"}, StreamOptions: o}, done)
		}, "http://runtime/exec?" + (&runtimeapi.ExecRequest{ContainerId: "c1", Cmd: []string{"cat"}, Stdin: true, Stderr: true}).String()},
		{"attach", func(done func(string, error)) {
			c.Attach(t.Context(), port.AttachStream{ContainerID: "c1", StreamOptions: port.StreamOptions{Stderr: true}}, done)
		}, "http://runtime/attach?" + (&runtimeapi.AttachRequest{ContainerId: "c1", Stderr: true}).String()},
		{"port forward", func(done func(string, error)) {
			c.PortForward(t.Context(), port.PortForwardStream{SandboxID: "s1", Ports: []int32{80, 443}}, done)
		}, "http://runtime/portforward?" + (&runtimeapi.PortForwardRequest{PodSandboxId: "s1", Port: []int32{80, 443}}).String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, err := await(t, tt.call)
			if err != nil || url != tt.want {
				t.Errorf("%q %v, want %q", url, err, tt.want)
			}
		})
	}
	_, err := await(t, func(done func(string, error)) {
		c.Exec(t.Context(), port.ExecStream{ContainerID: "gone", StreamOptions: shell}, done)
	})
	check.Equal(t, port.KindOf(err), port.NotFound, "of a container that is not there: %v", err)
}
