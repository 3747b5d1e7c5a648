package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registry "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// accept says why a plugin can't be registered, and whether it is asked again all the same.
func (f *Registry) accept(
	ctx context.Context, path string, info *registry.PluginInfo,
) (got *registered, again bool, err error) {
	name, endpoint := info.GetName(), cmp.Or(info.GetEndpoint(), path)
	switch t := info.GetType(); {
	case t == registry.DevicePlugin:
		if err := f.Valid(name, info.GetSupportedVersions()...); err != nil {
			return nil, false, err
		}
		p := port.DevicePlugin{Resource: v1.ResourceName(name), Endpoint: endpoint}
		if p.Options, err = f.Options(ctx, p); err != nil {
			return nil, true, err
		}
		return &registered{"device plugin", "resource", name, func(gone bool) { p.Gone = gone; f.Devices(p) }}, false, nil
	case t == registry.DRAPlugin && f.DRA != nil:
		service, err := serviceOf(name, info.GetSupportedVersions())
		if err != nil {
			return nil, false, err
		}
		d := port.DRADriver{Name: name, Endpoint: endpoint, Service: service}
		return &registered{"DRA driver", "driver", name, func(gone bool) { d.Gone = gone; f.DRA(d) }}, false, nil
	case t == registry.CSIPlugin && f.CSI != nil:
		if err := validCSI(name, info.GetSupportedVersions()); err != nil {
			return nil, false, err
		}
		d := port.CSIDriver{Name: name, Endpoint: endpoint}
		return &registered{"CSI driver", "driver", name, func(gone bool) { d.Gone = gone; f.CSI(d) }}, false, nil
	default:
		return nil, false, fmt.Errorf("plugins of type %s are not supported by this node agent", Bounded(t))
	}
}

// services are the versions of the DRA plugin API that this agent has, the best first.
var services = [...]string{dra.DRAPluginService, beta.DRAPluginService}

// serviceOf is the version that a DRA driver is called with.
func serviceOf(name string, versions []string) (string, error) {
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return "", fmt.Errorf("DRA driver name %q: %s", Bounded(name), errs[0])
	}
	for _, s := range services {
		if slices.Contains(versions, s) {
			return s, nil
		}
	}
	return "", fmt.Errorf("versions %s of the DRA plugin API are not supported: this agent supports %s",
		Bounded(strings.Join(versions, ", ")), strings.Join(services[:], ", "))
}

// validCSI says why a CSI driver can't be called: it must have version 1 of the CSI spec.
func validCSI(name string, versions []string) error {
	if errs := validation.IsDNS1123Subdomain(strings.ToLower(name)); len(errs) > 0 || len(name) > csiNameLimit {
		return fmt.Errorf("CSI driver name %q: it must be a DNS name of at most %d characters", Bounded(name), csiNameLimit)
	}
	if len(versions) == 0 {
		return fmt.Errorf("CSI driver %s has no supported versions", Bounded(name))
	}
	for _, v := range versions {
		if parsed, err := version.ParseGeneric(v); err == nil && parsed.Major() == 1 {
			return nil
		}
	}
	return fmt.Errorf("versions %s of CSI driver %s are not supported: this agent supports version 1 of the CSI spec",
		Bounded(strings.Join(versions, ", ")), Bounded(name))
}

// csiNameLimit is from the CSI spec.
const csiNameLimit = 63
