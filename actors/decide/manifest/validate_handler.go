package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// validateHandlers checks the probes and lifecycle hooks of a container. Init
// containers have none: they are ready when they have ended.
func validateHandlers(pod *v1.Pod, c *v1.Container, at *field.Path, kind podspec.Kind) field.ErrorList {
	var errs field.ErrorList
	probes := []struct {
		name  string
		probe *v1.Probe
	}{
		{"startupProbe", c.StartupProbe}, {"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe},
	}
	if kind == podspec.Init {
		const why = "an init container may have it only with restartPolicy Always (a sidecar)"
		for _, p := range probes {
			if p.probe != nil {
				errs = append(errs, field.Forbidden(at.Child(p.name), why))
			}
		}
		if c.Lifecycle != nil {
			errs = append(errs, field.Forbidden(at.Child("lifecycle"), why))
		}
		return errs
	}
	for _, p := range probes {
		errs = append(errs, validateProbe(p.probe, at.Child(p.name), p.name == "readinessProbe")...)
	}
	if c.Lifecycle == nil {
		return errs
	}
	grace := *pod.Spec.TerminationGracePeriodSeconds
	errs = append(errs, validateHook(c.Lifecycle.PostStart, grace, at.Child("lifecycle", "postStart"))...)
	errs = append(errs, validateHook(c.Lifecycle.PreStop, grace, at.Child("lifecycle", "preStop"))...)
	if signal := c.Lifecycle.StopSignal; signal != nil {
		if !strings.HasPrefix(string(*signal), "SIG") {
			errs = append(errs,
				field.Invalid(at.Child("lifecycle", "stopSignal"), *signal, "must be a signal's name, like SIGTERM"))
		}
		if pod.Spec.OS == nil {
			errs = append(errs, field.Forbidden(at.Child("lifecycle", "stopSignal"), "needs spec.os.name"))
		}
	}
	return errs
}

func validateProbe(p *v1.Probe, at *field.Path, readiness bool) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := exactlyOne(at, count(p.Exec != nil, p.HTTPGet != nil, p.TCPSocket != nil, p.GRPC != nil),
		"exec, httpGet, tcpSocket and grpc")
	errs = append(errs, validateExec(p.Exec, at.Child("exec"))...)
	errs = append(errs, validateHTTPGet(p.HTTPGet, at.Child("httpGet"))...)
	errs = append(errs, validateTCP(p.TCPSocket, at.Child("tcpSocket"))...)
	if p.GRPC != nil {
		errs = append(errs, validPort(at.Child("grpc", "port"), p.GRPC.Port)...)
	}
	errs = append(errs, atLeast(at.Child("initialDelaySeconds"), p.InitialDelaySeconds, 0)...)
	errs = append(errs, atLeast(at.Child("timeoutSeconds"), p.TimeoutSeconds, 1)...)
	errs = append(errs, atLeast(at.Child("periodSeconds"), p.PeriodSeconds, 1)...)
	errs = append(errs, atLeast(at.Child("failureThreshold"), p.FailureThreshold, 1)...)
	errs = append(errs, atLeast(at.Child("successThreshold"), p.SuccessThreshold, 1)...)
	if !readiness && p.SuccessThreshold > 1 {
		errs = append(errs,
			field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1 for a liveness or startup probe"))
	}
	if grace := p.TerminationGracePeriodSeconds; grace != nil {
		errs = append(errs, atLeast(at.Child("terminationGracePeriodSeconds"), *grace, 1)...)
		if readiness {
			errs = append(errs,
				field.Forbidden(at.Child("terminationGracePeriodSeconds"), "a failed readiness probe stops no container"))
		}
	}
	return errs
}

func validateHook(h *v1.LifecycleHandler, grace int64, at *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	errs := exactlyOne(at, count(h.Exec != nil, h.HTTPGet != nil, h.TCPSocket != nil, h.Sleep != nil),
		"exec, httpGet and sleep")
	errs = append(errs, validateExec(h.Exec, at.Child("exec"))...)
	errs = append(errs, validateHTTPGet(h.HTTPGet, at.Child("httpGet"))...)
	errs = append(errs, validateTCP(h.TCPSocket, at.Child("tcpSocket"))...)
	if h.Sleep != nil {
		errs = append(errs, within(at.Child("sleep", "seconds"), h.Sleep.Seconds, 0, grace)...)
	}
	return errs
}

func validateExec(exec *v1.ExecAction, at *field.Path) field.ErrorList {
	if exec != nil && len(exec.Command) == 0 {
		return field.ErrorList{field.Required(at.Child("command"), "")}
	}
	return nil
}

func validateHTTPGet(get *v1.HTTPGetAction, at *field.Path) field.ErrorList {
	if get == nil {
		return nil
	}
	errs := validatePortOrName(get.Port, at.Child("port"))
	errs = append(errs, oneOf(at.Child("scheme"), get.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)...)
	for i, header := range get.HTTPHeaders {
		errs = append(errs,
			invalid(at.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
	}
	return errs
}

func validateTCP(tcp *v1.TCPSocketAction, at *field.Path) field.ErrorList {
	if tcp == nil {
		return nil
	}
	return validatePortOrName(tcp.Port, at.Child("port"))
}

func validatePortOrName(port intstr.IntOrString, at *field.Path) field.ErrorList {
	if port.Type == intstr.String {
		return invalid(at, port.StrVal, validation.IsValidPortName(port.StrVal))
	}
	return validPort(at, port.IntVal)
}
