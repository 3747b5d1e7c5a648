package node

import (
	"context"
	"reflect"
	"testing"

	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/cri"
	"github.com/troupe-dev/troupe/supervisor/host"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/credentialplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
	"github.com/troupe-dev/troupe/supervisor/host/pressure/oomkills"
	"github.com/troupe-dev/troupe/supervisor/host/probe/network"
	"github.com/troupe-dev/troupe/supervisor/host/shutdown/logind"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// broken are the adapters of ports, or of methods of ports, that simulations do not have, without anything that they
// need.
var broken = map[string]any{
	"DRADrivers": &dradrivers.Drivers{}, "ResourceSlices": (&kube.Client{}).Slices("n"),
	"CredentialPlugins": &credentialplugins.Plugins{}, "Logs": &podlogs.Logs{}, "LogReopener": &cri.Client{},
	"LogLinks": &podlogs.Links{}, "OOM": &oomkills.Kills{}, "PodNetwork": &cri.Client{}, "Inhibitor": &logind.Logind{},
	"Host.GrowVolume": &host.Host{}, "Host.MountSubPaths": &host.Host{}, "Network.HTTPGet": &network.Network{},
	"Network.ProbeTCP": &network.Network{}, "Network.ProbeGRPC": &network.Network{}, "Files.MakeFiles": &host.Host{},
	"Files.WriteHosts": &host.Host{}, "Files.ReadEnvFiles": &host.Host{}, "Files.TerminationMessage": &host.Host{},
	"Runtime.UpdateSandbox": &cri.Client{}, "Runtime.ContainerMemory": &cri.Client{}, "Runtime.RemoveImage": &cri.Client{},
	"Runtime.Events": &cri.Client{},
}

// TestPanicsOfPorts: where simulations have no port, a panic beside the actor is told, and ends nothing else: neither this
// process, nor a goroutine that somebody waits for. Who is answered panics, if what is done for it has not before.
func TestPanicsOfPorts(t *testing.T) {
	t.Chdir(t.TempDir()) // in case anything is written
	ports, struck := reflect.TypeFor[node.Ports](), map[string]bool{}
	for i := range ports.NumField() {
		f := ports.Field(i)
		if f.Type.Kind() != reflect.Interface {
			continue
		}
		for m := range f.Type.NumMethod() {
			method := f.Type.Method(m).Name
			name := f.Name + "." + method
			for _, key := range []string{f.Name, name} {
				if adapter := broken[key]; adapter != nil {
					struck[key] = true
					t.Run(name, func(t *testing.T) { strike(t, reflect.ValueOf(adapter).MethodByName(method)) })
				}
			}
		}
	}
	must.Equal(t, len(struck), len(broken), "ports and methods that there are")
}

// strike calls a method with nothing, and fails the test unless a panic of it, or of who is answered, is told.
func strike(t *testing.T, method reflect.Value) {
	t.Helper()
	told := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = rescue.With(ctx, func(reason string, _ []byte) { told <- reason })
	args := make([]reflect.Value, method.Type().NumIn())
	for i := range args {
		switch in := method.Type().In(i); {
		case in == reflect.TypeFor[context.Context]():
			args[i] = reflect.ValueOf(ctx)
		case in.Kind() == reflect.Func:
			args[i] = reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value { panic("ordered") })
		default:
			args[i] = reflect.Zero(in)
		}
	}
	func() {
		defer rescue.Call(ctx, rescue.Answered) // the kernel does the same for what begins a call
		method.Call(args)
	}()
	cancel() // who watches answers now
	must.Receive(t, told)
}
