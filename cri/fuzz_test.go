package cri

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/fuzz"
)

// answers are those of the calls that read something, to be filled.
var answers = []proto.Message{
	&runtimeapi.VersionResponse{}, &runtimeapi.StatusResponse{}, &runtimeapi.RuntimeConfigResponse{},
	&runtimeapi.ListPodSandboxResponse{}, &runtimeapi.StreamPodSandboxesResponse{}, &runtimeapi.PodSandboxStatusResponse{},
	&runtimeapi.ListContainersResponse{}, &runtimeapi.StreamContainersResponse{}, &runtimeapi.ContainerStatusResponse{},
	&runtimeapi.ExecSyncResponse{}, &runtimeapi.ExecResponse{}, &runtimeapi.ContainerEventResponse{},
	&runtimeapi.ListImagesResponse{}, &runtimeapi.ImageStatusResponse{}, &runtimeapi.PullImageResponse{},
	&runtimeapi.ImageFsInfoResponse{}, &runtimeapi.ListContainerStatsResponse{}, &runtimeapi.ContainerStatsResponse{},
}

// FuzzAnswers: whatever bytes a runtime answers with, each call ends, with a value or with an error of the port.
func FuzzAnswers(f *testing.F) {
	for i := range answers {
		f.Add(byte(i), []byte{byte(i)})
		f.Add(byte(i), []byte{})
	}
	f.Add(byte(255), []byte{0xff, 0xff, 0xff})
	dir := check.Value(os.MkdirTemp("", "f"))(f) // a short path: a socket is in it
	var says atomic.Pointer[[]byte]
	socket := filepath.Join(dir, "cri.sock")
	stop := answer(f, socket, &says)
	hello := check.Value(proto.Marshal(&runtimeapi.VersionResponse{
		RuntimeApiVersion: "v1", RuntimeName: "f", RuntimeVersion: "1",
	}))(f)
	says.Store(&hello)
	c := check.Value(Dial(f.Context(), testConfig(socket)))(f)
	f.Cleanup(func() {
		c.Close()
		stop()
		check.Error(f, os.RemoveAll(dir))
	})
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		raw := data
		if int(which) < len(answers) {
			m := proto.Clone(answers[which])
			fuzz.New(data).Fill(m)
			var err error
			if raw, err = proto.Marshal(m); err != nil { // a text that is no UTF-8
				t.Skip(err)
			}
		}
		says.Store(&raw)
		for _, call := range callsOf(c) {
			call(t)
		}
	})
}

// bare passes messages as bytes.
type bare struct{}

func (bare) Name() string { return "proto" }

func (bare) Marshal(m any) ([]byte, error) { return *m.(*[]byte), nil }

func (bare) Unmarshal(data []byte, m any) error {
	*m.(*[]byte) = data
	return nil
}

// answer serves the same bytes as the answer of each call. A stream ends with them.
func answer(f *testing.F, socket string, says *atomic.Pointer[[]byte]) (stop func()) {
	listener := check.Value(net.Listen("unix", socket))(f)
	each := func(_ any, s grpc.ServerStream) error {
		var asked []byte
		if err := s.RecvMsg(&asked); err != nil {
			return err
		}
		return s.SendMsg(says.Load())
	}
	server := grpc.NewServer(grpc.ForceServerCodec(bare{}), grpc.UnknownServiceHandler(each))
	go server.Serve(listener) //nolint:errcheck // it ends with stop
	return server.Stop
}

// callsOf are all calls of a client that its ports declare, with arguments that are right.
func callsOf(c *Client) (calls []func(t *testing.T)) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "i"}}},
	}
	app := &pod.Spec.Containers[0]
	known := map[reflect.Type]reflect.Value{}
	for _, v := range []any{
		"id", port.Words("true"), port.PullImage{Image: "i"}, port.RunPodSandbox{Pod: pod},
		port.CreateContainer{Pod: pod, Container: app}, port.UpdateContainer{ID: "id", Pod: pod, Container: app},
		port.UpdateSandbox{ID: "id", Pod: pod}, port.PortForwardStream{SandboxID: "id"},
		port.ExecStream{ContainerID: "id", Command: []string{"true"}, StreamOptions: port.StreamOptions{Stdout: true}},
		port.AttachStream{ContainerID: "id", StreamOptions: port.StreamOptions{Stdout: true}},
	} {
		known[reflect.TypeOf(v)] = reflect.ValueOf(v)
	}
	v := reflect.ValueOf(c)
	for _, of := range []reflect.Type{
		reflect.TypeFor[port.Runtime](), reflect.TypeFor[port.Streams](), reflect.TypeFor[port.Usage](),
	} {
		for i := range of.NumMethod() {
			method := v.MethodByName(of.Method(i).Name)
			name := of.Method(i).Name
			calls = append(calls, func(t *testing.T) {
				t.Helper()
				check.Error(t, finish(t.Context(), name, method, known))
			})
		}
	}
	return calls
}

// finish makes one call and waits until it is done. The error says that it ended with one that is none of the port.
func finish(ctx context.Context, name string, method reflect.Value, known map[reflect.Type]reflect.Value) (err error) {
	ended := make(chan error, 1)
	var args []reflect.Value
	kind := method.Type()
	for i := range kind.NumIn() {
		in := kind.In(i)
		switch v, is := known[in]; {
		case is:
			args = append(args, v)
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(ctx))
		case in.Kind() == reflect.Func && i == kind.NumIn()-1:
			args = append(args, reflect.MakeFunc(in, func(got []reflect.Value) []reflect.Value {
				err, _ := got[len(got)-1].Interface().(error)
				ended <- err
				return nil
			}))
		case in.Kind() == reflect.Func:
			args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value { return nil }))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	method.Call(args)
	if err := <-ended; err != nil && port.KindOf(err) == port.Panic {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
