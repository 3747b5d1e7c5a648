package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// CredentialPlugin is a credential provider plugin of a simulated machine. Its process does what a script says:
//
//	RunPlugin ──► runs ──Takes──► exits: its answer, or an error
//	                └──a minute is over, or Hangs──► killed: an error
type CredentialPlugin struct {
	Provider imagepull.Provider
	// Script says what a run does. run is how many there were before.
	Script func(run int, request *api.CredentialProviderRequest) CredentialAnswer
}

// CredentialAnswer is what one run of a plugin does. The zero value answers that there is no credential.
type CredentialAnswer struct {
	// Takes is how long it runs, on top of a usual start of a process.
	Takes time.Duration
	Hangs bool
	// Fails is how it fails, empty if it does not.
	Fails string
	// Raw is written as it is, instead of an answer.
	Raw []byte
	// Auth are credentials by registry; they count for Key, the image if it is empty, and as long as For says, or as
	// the configuration of the plugin does if it is nil.
	Auth map[string]api.AuthConfig
	Key  imagepull.CacheKeyType
	For  *time.Duration
}

const (
	// pluginLatency is how long a process takes that answers at once. ESTIMATE.
	pluginLatency = 20 * time.Millisecond
	// pluginLimit is when a plugin is killed.
	pluginLimit = time.Minute
)

// CredentialPlugins are those of the machine.
type CredentialPlugins struct {
	Calls
	of   []CredentialPlugin
	runs map[string]int
	// config is the docker configuration, nil for none.
	config []byte
}

var _ port.CredentialPlugins = (*CredentialPlugins)(nil)

func newCredentialPlugins(clock simport.Clock) *CredentialPlugins {
	return &CredentialPlugins{Calls: Calls{clock: clock}, runs: map[string]int{}}
}

// Add installs a plugin, before the agent starts.
func (p *CredentialPlugins) Add(of ...CredentialPlugin) { p.of = append(p.of, of...) }

// Providers are the configurations of the plugins.
func (p *CredentialPlugins) Providers() (out []imagepull.Provider) {
	for i := range p.of {
		out = append(out, p.of[i].Provider)
	}
	return out
}

// Runs is how often a plugin was run.
func (p *CredentialPlugins) Runs(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[name]
}

// RunPlugin implements port.CredentialPlugins.
func (p *CredentialPlugins) RunPlugin(
	ctx context.Context, of *imagepull.Provider, request []byte, done func([]byte, error),
) {
	call := Call{Verb: "RunCredentialPlugin", Name: of.Name}
	n := slices.IndexFunc(p.of, func(c CredentialPlugin) bool { return c.Provider.Name == of.Name })
	var q api.CredentialProviderRequest
	if n < 0 || json.Unmarshal(request, &q) != nil {
		panic(fmt.Sprintf("machine: there is no plugin %s, or this is no request: %s", of.Name, request))
	}
	p.mu.Lock()
	run := p.runs[of.Name]
	p.runs[of.Name]++
	p.mu.Unlock()
	answer := CredentialAnswer{}
	if p.of[n].Script != nil {
		answer = p.of[n].Script(run, &q)
	}
	if answer.Hangs || answer.Takes >= pluginLimit {
		answer.Takes = pluginLimit
	}
	var data []byte
	p.do(ctx, call, pluginLatency+answer.Takes, func(err error) { done(data, err) }, func() error {
		switch {
		case answer.Takes == pluginLimit:
			return &port.Error{Kind: port.Deadline, Verb: call.Verb, Object: of.Name,
				Detail: fmt.Sprintf("no answer within %v: it was killed", pluginLimit)}
		case answer.Fails != "":
			return &port.Error{Verb: call.Verb, Object: of.Name, Detail: answer.Fails}
		default:
			data = answer.encode(of.APIVersion)
			return nil
		}
	})
}

func (a *CredentialAnswer) encode(version string) []byte {
	if a.Raw != nil {
		return a.Raw
	}
	out := api.CredentialProviderResponse{
		TypeMeta:     metav1.TypeMeta{APIVersion: version, Kind: "CredentialProviderResponse"},
		CacheKeyType: api.ImagePluginCacheKeyType, Auth: a.Auth,
	}
	if a.Key != "" {
		out.CacheKeyType = api.PluginCacheKeyType(a.Key)
	}
	if a.For != nil {
		out.CacheDuration = &metav1.Duration{Duration: *a.For}
	}
	data, err := json.Marshal(&out)
	if err != nil {
		panic(err) // strings
	}
	return data
}

// SetDockerConfig replaces the docker configuration of the machine.
func (p *CredentialPlugins) SetDockerConfig(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = data
}

// DockerConfig implements port.CredentialPlugins.
func (p *CredentialPlugins) DockerConfig(ctx context.Context, done func([]byte, bool, error)) {
	var data []byte
	p.do(ctx, Call{Verb: "ReadDockerConfig"}, diskLatency, func(err error) { done(data, false, err) }, func() error {
		data = slices.Clone(p.config)
		return nil
	})
}
