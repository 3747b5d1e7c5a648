package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/logs"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/tests/check"
)

// configOf is the configuration of a daemon whose file has these lines.
func configOf(t *testing.T, lines string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + lines
	check.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
	flags, set := config.NewFlags(), pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(set)
	check.Fatal(t, set.Parse([]string{"--config", file}))
	return check.Value(config.Load(flags, os.DirFS("/"), "/"))(t)
}

// TestPools: an agent by default, and one that is told otherwise.
func TestPools(t *testing.T) {
	limits := func(c Config, name string, size int, least, most time.Duration) {
		t.Helper()
		for _, p := range c.pools() {
			if p.Name == name {
				if p.Size != size || p.MinHold != least || p.MaxHold != most {
					t.Errorf("%s: got %+v", name, p)
				}
				return
			}
		}
		t.Errorf("there is no pool %s", name)
	}
	c := Default(4)
	limits(c, "pull", 5, 5*time.Minute, 15*time.Minute)
	limits(c, "start", 8, 400*time.Millisecond, 5*time.Second)
	limits(c, "look", 4, 200*time.Millisecond, 2*time.Second)
	limits(c, "exec-probe", 8, 200*time.Millisecond, time.Second)
	limits(Default(1), "start", 2, 400*time.Millisecond, 5*time.Second)
	limits(Default(1), "look", 2, 200*time.Millisecond, 2*time.Second)
	c = Of(configOf(t, "containerLogMaxWorkers: 3\nserializeImagePulls: true\n"))
	limits(c, "pull", 1, 5*time.Minute, 15*time.Minute)
	limits(c, logs.Pool, 3, 30*time.Second, 90*time.Second)
	limits(Of(configOf(t, "serializeImagePulls: false\n")), "pull", 64, 5*time.Minute, 15*time.Minute)
}

// TestOf: the settings follow the configuration.
func TestOf(t *testing.T) {
	c := Of(configOf(t, `staticPodPath: /m
fileCheckFrequency: 7s
staticPodURL: http://a.test/
httpCheckFrequency: 8s
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
nodeStatusMaxImages: 7
nodeStatusUpdateFrequency: 20s
nodeLeaseDurationSeconds: 30
configMapAndSecretChangeDetectionStrategy: Cache
allowedUnsafeSysctls: [kernel.msg*]
`))
	if c.Sources != (sources.Settings{Path: "/m", PathPeriod: 7 * time.Second, URL: "http://a.test/", URLPeriod: 8 * time.Second}) {
		t.Errorf("static pods: %+v", c)
	}
	if c.Logs.Policy != (containerlogs.Policy{MaxSize: 1 << 20, MaxFiles: 3}) || len(c.Admit.AllowedUnsafeSysctls) != 1 {
		t.Errorf("got %+v", c)
	}
	k := c.Cluster
	if k.Register || k.MaxImages != 7 || k.StatusPeriod != 20*time.Second || k.LeaseDuration != 30*time.Second || k.Objects.Detection != apiobjects.Cache {
		t.Errorf("got %+v", k)
	}
	if Of(configOf(t, "configMapAndSecretChangeDetectionStrategy: Get\n")).Cluster.Objects.Detection != apiobjects.Get {
		t.Error("objects are not got")
	}
	d := Default(4)
	if !d.Cluster.Register || d.CrashBackOff.Base != 10*time.Second || d.CrashBackOff.Max != 5*time.Minute || d.Cluster.ReportPeriod != 5*time.Minute || d.Sources.Path != "" {
		t.Errorf("got %+v", d)
	}
}

// TestStartTwice: a second agent of the same name waits for the end of the first.
func TestStartTwice(t *testing.T) {
	clock := kernel.NewVirtual(1, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	system := check.Value(kernel.NewSystem(kernel.Config{Clock: clock, Seed: 1}))(t)
	c := Default(1)
	c.Name = "n1"
	check.Fails(t, check.Err(Start(system, c)), "it has no ports")
	c.Ports = node.Ports{
		Runtime: struct{ port.Runtime }{}, Host: struct{ port.Host }{}, Network: struct{ port.Network }{},
		Manifests: struct{ port.Manifests }{}, Checkpoints: struct{ port.Checkpoints }{}, Events: struct{ port.Recorder }{},
	}
	first := check.Value(Start(system, c))(t)
	check.Fails(t, check.Err(Start(system, c)), "there are two at once")
	first.Kill()
	clock.Settle()
	second := check.Value(Start(system, c))(t)
	second.Kill()
}
