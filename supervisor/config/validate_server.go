package config

import (
	"errors"
	"math"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/troupe-dev/troupe/actors/decide/admit"
)

func (v *validator) server() {
	if _, err := netip.ParseAddr(v.Address); err != nil {
		v.invalid(at("address"), v.Address, "must be an IP address, like 127.0.0.1 or ::1")
	}
	if _, err := cliflag.TLSVersion(v.TLSMinVersion); err != nil {
		v.add(field.NotSupported(at("tlsMinVersion"), v.TLSMinVersion, cliflag.TLSPossibleVersions()))
	}
	for i, name := range v.TLSCipherSuites {
		if _, err := cliflag.TLSCipherSuites([]string{name}); err != nil {
			v.invalid(at("tlsCipherSuites").Index(i), name,
				"is not a cipher suite: use names like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
		}
	}
	if _, err := cliflag.TLSCurvePreferences(v.TLSCurvePreferences); err != nil {
		v.invalid(at("tlsCurvePreferences"), v.TLSCurvePreferences, "must be CurveIDs of Go's crypto/tls, like 29: %v", err)
	}
	v.needsGate(v.ServerTLSBootstrap, "RotateKubeletServerCertificate", at("serverTLSBootstrap"), true)
	if *v.EnableSystemLogQuery && v.needsGate(true, "NodeLogQuery", at("enableSystemLogQuery"), true) &&
		!*v.EnableSystemLogHandler {
		v.invalid(at("enableSystemLogQuery"), true, "needs enableSystemLogHandler")
	}
	if t := v.Tracing; t != nil && t.Endpoint != nil && strings.Contains(*t.Endpoint, "//") {
		u, err := url.Parse(*t.Endpoint)
		if err != nil || !slices.Contains([]string{"dns", "unix", "unix-abstract"}, u.Scheme) {
			v.invalid(at("tracing", "endpoint"), *t.Endpoint, "must be host:port, or begin with dns:, unix: or unix-abstract:")
		}
	}
	// Metrics are hidden for one minor version before they go.
	if hidden := v.ShowHiddenMetricsForVersion; hidden != "" && hidden != previousVersion {
		v.invalid(at("showHiddenMetricsForVersion"), hidden,
			"only the previous minor version can be given: %s", previousVersion)
	}
}

// previousVersion is the Kubernetes version before the one this agent is.
const previousVersion = "1.35"

func (v *validator) reasons(path *field.Path, value any, reasons []string) {
	if len(reasons) > 0 {
		v.invalid(path, value, "%s", strings.Join(reasons, "; "))
	}
}

func (v *validator) sources() {
	v.endpoint(at("containerRuntimeEndpoint"), v.ContainerRuntimeEndpoint)
	if v.ImageServiceEndpoint != "" {
		v.endpoint(at("imageServiceEndpoint"), v.ImageServiceEndpoint)
	}
	for i, pattern := range v.AllowedUnsafeSysctls {
		if name := strings.TrimSuffix(pattern, "*"); name == "" || strings.ContainsAny(name, "* ") {
			v.invalid(at("allowedUnsafeSysctls").Index(i), pattern, "must be the name of a sysctl, or a prefix followed by *")
		} else if !admit.Namespaced(pattern) {
			v.invalid(at("allowedUnsafeSysctls").Index(i), pattern,
				"is not known to be namespaced: one pod's value would be that of the node; set it on the node instead")
		}
	}
}

// endpoint: a unix socket, written as a URL, with one slash or three, or as a path.
func (v *validator) endpoint(at *field.Path, value string) {
	socket, isURL := strings.CutPrefix(value, "unix:")
	if isURL {
		socket = strings.TrimPrefix(socket, "//")
	}
	if !path.IsAbs(socket) {
		example := "unix:///run/containerd/containerd.sock"
		if isURL {
			v.invalid(at, value, "the socket's path must be absolute: %s", example)
		} else {
			v.invalid(at, value, "must be a unix socket, like %s", example)
		}
	}
}

// parseLogSize reads containerLogMaxSize: less than 0 for any size.
func parseLogSize(text string) (int64, error) {
	quantity, err := resource.ParseQuantity(text)
	switch {
	case err != nil:
		return 0, err
	case quantity.Sign() < 0:
		return -1, nil
	case quantity.IsZero():
		return 0, errors.New("not above 0")
	}
	return quantity.Value(), nil
}

func (v *validator) logs() {
	if _, err := parseLogSize(v.ContainerLogMaxSize); err != nil {
		v.invalid(at("containerLogMaxSize"), v.ContainerLogMaxSize,
			"must be a quantity above 0, like 10Mi, or negative for no rotation")
	}
	switch dir := v.PodLogsDir; {
	case !path.IsAbs(dir):
		v.invalid(at("podLogsDir"), dir, "must be an absolute path")
	case path.Clean(dir) != strings.TrimSuffix(dir, "/"):
		v.invalid(at("podLogsDir"), dir, "must have no '.', '..' or '//' in it")
	case strings.ContainsFunc(dir, func(r rune) bool { return r > 127 }):
		v.invalid(at("podLogsDir"), dir, "must be ASCII: it is used in metrics")
	}
	logging := &v.Logging
	if f := logging.FlushFrequency.Duration.Duration; f <= 0 {
		v.invalid(at("logging", "flushFrequency"), f.String(), "must be above 0")
	}
	if len(logging.VModule) > 0 && logging.Format != "text" {
		v.add(field.Forbidden(at("logging", "vmodule"), "only for format text"))
	}
	for i, item := range logging.VModule {
		if item.FilePattern == "" || strings.ContainsAny(item.FilePattern, "=,") {
			v.invalid(at("logging", "vmodule").Index(i).Child("filePattern"), item.FilePattern,
				"must be a file name or pattern without '=' and ','")
		}
		if item.Verbosity > math.MaxInt32 {
			v.invalid(at("logging", "vmodule").Index(i).Child("verbosity"), uint32(item.Verbosity),
				"must be from 0 to %d", math.MaxInt32)
		}
	}
	v.needsGate(logging.Options.Text.SplitStream, "LoggingAlphaOptions",
		at("logging", "options", "text", "splitStream"), true)
	v.needsGate(logging.Options.JSON.SplitStream, "LoggingAlphaOptions",
		at("logging", "options", "json", "splitStream"), true)
	v.needsGate(!logging.Options.Text.InfoBufferSize.IsZero(), "LoggingAlphaOptions",
		at("logging", "options", "text", "infoBufferSize"), logging.Options.Text.InfoBufferSize.String())
	v.needsGate(!logging.Options.JSON.InfoBufferSize.IsZero(), "LoggingAlphaOptions",
		at("logging", "options", "json", "infoBufferSize"), logging.Options.JSON.InfoBufferSize.String())
}
