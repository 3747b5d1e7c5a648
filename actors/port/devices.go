package port

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
)

// DevicePlugins are the device plugins of this machine (device plugin API v1beta1). The calling convention is
// Runtime's, and all errors are *Error. A plugin that does not answer, hangs or says what no plugin may say is an
// error of its own calls alone.
type DevicePlugins interface {
	// Registrations calls event for each plugin that registers, by the agent's own socket
	// (/var/lib/kubelet/device-plugins/kubelet.sock) or by the plugin registry (<root>/plugins_registry), and for each
	// that the registry loses. Plugins that were there before are told again. done is called if the sockets can't be
	// served.
	Registrations(ctx context.Context, event func(DevicePlugin), done func(error))
	// Devices calls event with all devices of a plugin: first as they are, then with each change (ListAndWatch). Each
	// list is sorted by ID, without duplicates. done is called when the plugin ends the list, or is gone.
	Devices(ctx context.Context, p DevicePlugin, event func([]devices.Device), done func(error))
	// Prefer asks which devices a plugin prefers (GetPreferredAllocation).
	Prefer(ctx context.Context, p DevicePlugin, q devices.Question, done func(ids []string, err error))
	// Allocate tells a plugin that a container gets devices. The answer is an encoded ContainerAllocateResponse.
	Allocate(ctx context.Context, p DevicePlugin, ids []string, done func(answer []byte, err error))
	// PreStart tells a plugin that a container with these devices is about to start (PreStartContainer).
	PreStart(ctx context.Context, p DevicePlugin, ids []string, done func(error))
}

// DevicePlugin is a plugin that has registered.
type DevicePlugin struct {
	Resource v1.ResourceName
	// Endpoint is the path of its socket.
	Endpoint string
	Options  devices.Options
	// Gone: the registry has lost it. Only Resource and Endpoint are set.
	Gone bool
}
