package cri

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
)

// Version implements port.Runtime.
func (c *Client) Version(ctx context.Context, done func(port.RuntimeVersion, error)) {
	run(c, ctx, call{"Version", "", c.deadlines.ask()}, c.version, done)
}

func (c *Client) version(ctx context.Context) (port.RuntimeVersion, error) {
	v, err := c.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	return port.RuntimeVersion{
		Name:       v.GetRuntimeName(),
		Version:    v.GetRuntimeVersion(),
		APIVersion: v.GetRuntimeApiVersion(),
	}, err
}

// CgroupDriver asks the runtime for the cgroup driver; an error of kind Unsupported from a
// runtime without that call (containerd before 2.0).
func (c *Client) CgroupDriver(ctx context.Context, done func(podcgroup.Driver, error)) {
	run(c, ctx, call{"RuntimeConfig", "", c.deadlines.ask()}, func(ctx context.Context) (podcgroup.Driver, error) {
		answer, err := c.runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
		if answer.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_CGROUPFS {
			return podcgroup.Cgroupfs, err
		}
		return podcgroup.Systemd, err
	}, done)
}

// Status implements port.Runtime. The features of handlers are used for sandboxes and containers
// that are made later.
func (c *Client) Status(ctx context.Context, done func(port.RuntimeStatus, error)) {
	run(c, ctx, call{"Status", "", c.deadlines.ask()}, func(ctx context.Context) (port.RuntimeStatus, error) {
		answer, err := c.runtime.Status(ctx, &runtimeapi.StatusRequest{})
		var out port.RuntimeStatus
		for _, k := range answer.GetStatus().GetConditions() {
			out.Conditions = append(out.Conditions, port.RuntimeCondition{
				Type: k.GetType(), Status: k.GetStatus(), Reason: k.GetReason(), Message: k.GetMessage(),
			})
		}
		for _, h := range answer.GetRuntimeHandlers() {
			handler := v1.NodeRuntimeHandler{Name: h.GetName()}
			if f := h.GetFeatures(); f != nil {
				handler.Features = &v1.NodeRuntimeHandlerFeatures{
					RecursiveReadOnlyMounts: &f.RecursiveReadOnlyMounts, UserNamespaces: &f.UserNamespaces,
				}
			}
			out.Handlers = append(out.Handlers, handler)
		}
		slices.SortFunc(out.Handlers, func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
		if f := answer.GetFeatures(); f != nil {
			out.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &f.SupplementalGroupsPolicy}
		}
		if err == nil {
			c.handlers.Store(&out.Handlers)
		}
		return out, err
	}, done)
}
