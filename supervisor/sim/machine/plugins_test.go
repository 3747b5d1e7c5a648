package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

const gpu v1.ResourceName = "example.com/gpu"

// TestDevicePlugins: an agent hears of plugins that are there and that come, of their devices and of their end. A loss of
// power ends them, and they come back by themselves.
func TestDevicePlugins(t *testing.T) {
	v, m := faulty("", Fault{})
	p, ctx := m.Plugins, context.Background()
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	want := func(when string, want ...string) {
		t.Helper()
		v.Advance(time.Second)
		check.Same(t, said, want, "%s: got", when)
		said = nil
	}
	over := make(chan struct{})
	listen := func(ctx context.Context) {
		p.Registrations(ctx, func(found port.DevicePlugin) {
			say("%s registers", found.Resource)
			p.Devices(ctx, found, func(list []devices.Device) {
				healthy := 0
				for _, d := range list {
					if d.Healthy {
						healthy++
					}
				}
				say("%d of %d", healthy, len(list))
			}, func(err error) { say("ends: %v", port.KindOf(err)) })
		}, func(error) { close(over) })
	}
	served := DevicePlugin{Devices: []devices.Device{{ID: "b", Healthy: true}, {ID: "a", Healthy: true}}, Boot: time.Minute}
	p.Serve(gpu, served)
	agent, kill := context.WithCancel(ctx)
	listen(agent)
	want("it is there", "example.com/gpu registers", "2 of 2")
	p.SetHealth(gpu, "a", false)
	want("a device is broken", "1 of 2")
	p.Start(gpu)
	want("it is restarted", "ends: unavailable", "example.com/gpu registers", "1 of 2")
	p.Stop(gpu)
	p.Stop("example.com/other")
	want("it has gone", "ends: unavailable")
	kill()
	<-over
	want("the agent has gone")
	listen(ctx)
	want("nothing is there")
	p.Start(gpu)
	want("it comes", "example.com/gpu registers", "1 of 2")
	m.LosePower()
	want("there is no power", "ends: unavailable")
	p.Start(gpu)
	want("it cannot start")
	m.Boot()
	listen(ctx)
	want("it boots")
	v.Advance(time.Minute)
	want("it has booted", "example.com/gpu registers", "1 of 2")
}

// TestDevicePluginsListFails: a plugin whose list fails is started again, and registers. The context of a caller ends with
// the answer, as an actor's does.
func TestDevicePluginsListFails(t *testing.T) {
	v, m := faulty(listDevices, Fault{Err: errors.New("no")})
	p, ctx := m.Plugins, context.Background()
	p.Serve(gpu, DevicePlugin{Devices: []devices.Device{{ID: "a", Healthy: true}}})
	var said []string
	p.Registrations(ctx, func(found port.DevicePlugin) {
		said = append(said, "registers")
		one, end := context.WithCancel(ctx)
		p.Devices(one, found, func([]devices.Device) { said = append(said, "lists") }, func(error) {
			end()
			said = append(said, "fails")
			p.Fault = nil
		})
	}, nil)
	v.Advance(pluginRestart - time.Second)
	check.Same(t, said, []string{"registers", "fails"}, "before it is started again")
	v.Advance(2 * time.Second)
	check.Same(t, said, []string{"registers", "fails", "registers", "lists"}, "afterwards")
}

// TestDevicePluginCalls: what a plugin answers, and what it does not answer when it has gone.
func TestDevicePluginCalls(t *testing.T) {
	v, m := faulty("", Fault{})
	p, ctx := m.Plugins, context.Background()
	of := port.DevicePlugin{Resource: gpu}
	p.Serve(gpu, DevicePlugin{Devices: []devices.Device{{ID: "a"}, {ID: "b"}, {ID: "c"}}, Latency: time.Second})
	question := devices.Question{Available: []string{"a", "b", "c"}, Must: []string{"a"}, Size: 2}
	p.Prefer(ctx, of, question, func(ids []string, err error) {
		if got := strings.Join(ids, ""); got != "ac" || err != nil {
			t.Errorf("prefers %q, %v", got, err)
		}
	})
	var answer []byte
	p.Allocate(ctx, of, []string{"a", "c"}, func(data []byte, err error) { answer = data })
	v.Advance(time.Second - time.Millisecond)
	if answer != nil {
		t.Error("it answers before its latency is over")
	}
	v.Advance(time.Millisecond)
	var r api.ContainerAllocateResponse
	if err := proto.Unmarshal(answer, &r); err != nil || r.Envs[string(gpu)] != "a,c" {
		t.Errorf("answers %v, %v", &r, err)
	}
	var errs []error
	fail := func(err error) { errs = append(errs, err) }
	p.Allocate(ctx, of, []string{"z"}, func(_ []byte, err error) { fail(err) })
	v.Advance(time.Second)
	p.PreStart(ctx, of, []string{"a"}, fail)
	p.Stop(gpu)
	v.Advance(time.Second)
	p.Devices(ctx, port.DevicePlugin{Resource: "example.com/other"}, nil, fail)
	v.Advance(time.Second)
	for i, want := range []port.ErrorKind{port.Other, port.Unavailable, port.Unavailable} {
		if e, is := errors.AsType[*port.Error](errs[i]); !is || e.Kind != want {
			t.Errorf("error %d: %v", i, errs[i])
		}
	}
}
