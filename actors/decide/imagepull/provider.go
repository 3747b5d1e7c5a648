package imagepull

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Provider is one plugin, as it is configured.
type Provider struct {
	// Name is that of its program.
	Name string
	// Images are patterns of the images that it is asked for; see Match.
	Images []string
	// APIVersion is that of requests and answers: credentialprovider.kubelet.k8s.io/v1, …
	APIVersion string
	// CacheDuration is for answers that don't say for how long they count.
	CacheDuration time.Duration
	// Args and Env (NAME=value) are for its process.
	Args, Env []string
	// Token is nil if it gets no tokens of service accounts.
	Token *ProviderToken
}

// ProviderToken says which tokens of service accounts a plugin gets (tokenAttributes).
type ProviderToken struct {
	Audience string
	// Required: it is asked only for pods with a service account.
	Required bool
	// RequiredAnnotations and OptionalAnnotations are annotations of the service account that it gets. It is not asked
	// for one without those that are required.
	RequiredAnnotations, OptionalAnnotations []string
	// PerToken: its answers count for the same token only, and not for all pods of the service account.
	PerToken bool
}

// Asks says whether the plugin is asked for an image.
func (p *Provider) Asks(r Reference) bool {
	return slices.ContainsFunc(p.Images, func(pattern string) bool { return Match(pattern, r) })
}

// Annotations are those that the plugin gets of a service account with these; missing is one that it lacks.
func (t *ProviderToken) Annotations(of map[string]string) (out map[string]string, missing string) {
	out = map[string]string{}
	for _, k := range t.RequiredAnnotations {
		v, ok := of[k]
		if !ok {
			return nil, k
		}
		out[k] = v
	}
	for _, k := range t.OptionalAnnotations {
		if v, ok := of[k]; ok {
			out[k] = v
		}
	}
	return out, ""
}

// Request is what a plugin reads.
func (p *Provider) Request(image, token string, annotations map[string]string) []byte {
	data, err := json.Marshal(&api.CredentialProviderRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: p.APIVersion, Kind: "CredentialProviderRequest"},
		Image:    image, ServiceAccountToken: token, ServiceAccountAnnotations: annotations,
	})
	if err != nil {
		panic(err) // strings
	}
	return data
}

// Answer is what a plugin writes.
type Answer struct {
	Logins []Login // sorted
	// Key is what its credentials are for.
	Key CacheKeyType
	// For is how long they count; zero: they are not kept.
	For time.Duration
}

// CacheKeyType says for which images an answer counts (cacheKeyType).
type CacheKeyType string

const (
	CacheForImage    = CacheKeyType(api.ImagePluginCacheKeyType)
	CacheForRegistry = CacheKeyType(api.RegistryPluginCacheKeyType)
	CacheForAll      = CacheKeyType(api.GlobalPluginCacheKeyType)
)

// maxLogins bounds the credentials of one answer, maxKeep how long they are kept.
const (
	maxLogins = 1000
	maxKeep   = 365 * 24 * time.Hour
)

// Read reads an answer to a request with that token. Errors say nothing of what is in it: it may have credentials.
func (p *Provider) Read(data []byte, token string) (Answer, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return Answer{}, errors.New("its answer on stdout is not JSON")
	}
	switch {
	case meta.APIVersion != p.APIVersion:
		return Answer{}, fmt.Errorf("its answer has apiVersion %.60q, not %s", meta.APIVersion, p.APIVersion)
	case meta.Kind != "CredentialProviderResponse":
		return Answer{}, fmt.Errorf("its answer has kind %.60q, not CredentialProviderResponse", meta.Kind)
	}
	var r api.CredentialProviderResponse
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil || d.More() {
		return Answer{}, errors.New("its answer on stdout is not a CredentialProviderResponse")
	}
	a := Answer{Key: CacheKeyType(r.CacheKeyType), For: p.CacheDuration}
	switch {
	case a.Key != CacheForImage && a.Key != CacheForRegistry && a.Key != CacheForAll:
		return Answer{}, fmt.Errorf("its answer has cacheKeyType %.60q, not Image, Registry or Global", r.CacheKeyType)
	case len(r.Auth) > maxLogins:
		return Answer{}, fmt.Errorf("its answer has credentials for %d registries, more than %d", len(r.Auth), maxLogins)
	}
	if r.CacheDuration != nil {
		a.For = r.CacheDuration.Duration
	}
	a.For = min(max(a.For, 0), maxKeep)
	for _, registry := range slices.Sorted(maps.Keys(r.Auth)) {
		c := r.Auth[registry]
		if token != "" && c.Password == token && !p.Token.PerToken {
			return Answer{}, errors.New("its answer has the token of the service account as a password, " +
				"which needs tokenAttributes.cacheType Token")
		}
		a.Logins = append(a.Logins, Login{
			Registry: registry, Credential: Credential{Username: c.Username, Password: c.Password},
		})
	}
	return a, nil
}
