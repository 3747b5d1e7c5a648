package config

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1"
	kubeletalpha "k8s.io/kubelet/config/v1alpha1"
	kubeletbeta "k8s.io/kubelet/config/v1beta1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	alpha1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1alpha1"
	beta1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
)

// CredentialProviders are the credential provider plugins, in their order
// (--image-credential-provider-config), and a hash of their configuration for
// metrics. None without a configuration.
func (c Config) CredentialProviders() (of []imagepull.Provider, hash string) {
	return slices.Clone(c.providers), c.providersHash
}

const (
	providerKind  = "CredentialProviderConfig"
	providerGroup = "kubelet.config.k8s.io/"
	providersFlag = "--image-credential-provider-config"
	tokenGate     = "KubeletServiceAccountTokenForCredentialProviders"
)

// providerVersions are the versions of requests and answers.
var providerVersions = []string{
	api.SchemeGroupVersion.String(), alpha1.SchemeGroupVersion.String(), beta1.SchemeGroupVersion.String(),
}

// readProviders reads the configuration of credential provider plugins: a file, or
// all files of a directory that end with .json, .yaml or .yml, in the order of their names.
func (l *loader) readProviders(
	o Options, gates Gates,
) (of []imagepull.Provider, sum string, problems []Problem) {
	if o.CredentialProviderConfig == "" || o.CredentialProviderBinDir == "" {
		return nil, "", nil // one without the other is told by validateOptions
	}
	files, err := l.filesOf(o.CredentialProviderConfig, ".json", ".yaml", ".yml")
	if err != nil {
		return nil, "", []Problem{{Origin: providersFlag, Value: o.CredentialProviderConfig, Message: err.Error()}}
	}
	hashed := sha256.New()
	seen := map[string]string{}
	for _, name := range files {
		listed, found := l.readProviderFile(name, hashed)
		if found != nil {
			problems = append(problems, found...)
			continue
		}
		errs := validateProviders(listed, gates)
		at := field.NewPath("providers")
		for i := range listed {
			p := &listed[i]
			if other, twice := seen[p.Name]; twice {
				errs = append(errs, field.Invalid(at.Index(i).Child("name"), p.Name, "is also in "+other))
			}
			seen[p.Name] = name
			if reason := l.notExecutable(path.Join(o.CredentialProviderBinDir, p.Name)); len(errs) == 0 && reason != "" {
				errs = append(errs, field.Invalid(at.Index(i).Child("name"), p.Name, reason))
			}
		}
		for _, p := range fromFieldErrors(nil, errs) {
			p.Origin = name
			problems = append(problems, p)
		}
		if len(errs) == 0 {
			for i := range listed {
				of = append(of, provider(&listed[i]))
			}
		}
	}
	if problems != nil {
		return nil, "", problems
	}
	return of, fmt.Sprintf("sha256:%x", hashed.Sum(nil)), nil
}

// readProviderFile reads one file. The versions have the same fields, but for
// tokenAttributes, which only v1 has.
func (l *loader) readProviderFile(name string, sum hash.Hash) ([]kubelet.CredentialProvider, []Problem) {
	data, problems := readFile(l.root, name)
	if problems != nil {
		return nil, problems
	}
	_ = binary.Write(sum, binary.BigEndian, uint64(len(data))) // hashes take all
	_, _ = sum.Write(data)
	tree, mistakes := strictyaml.Parse(data)
	if mistakes != nil {
		return nil, fromMistakes(name, mistakes)
	}
	m, ok := tree.(map[string]any)
	if !ok || m["kind"] != providerKind {
		return nil, []Problem{{Origin: name, Field: "kind", Message: "must be " + providerKind}}
	}
	version, _ := m["apiVersion"].(string)
	switch version {
	case providerGroup + "v1":
	case providerGroup + "v1beta1":
		mistakes = strictyaml.DecodeTree(m, "", &kubeletbeta.CredentialProviderConfig{})
	case providerGroup + "v1alpha1":
		mistakes = strictyaml.DecodeTree(m, "", &kubeletalpha.CredentialProviderConfig{})
	default:
		return nil, []Problem{{Origin: name, Field: "apiVersion", Value: strictyaml.Show(m["apiVersion"]),
			Message: "must be " + providerGroup + "v1, v1beta1 or v1alpha1"}}
	}
	var typed kubelet.CredentialProviderConfig
	if mistakes == nil {
		mistakes = strictyaml.DecodeTree(m, "", &typed)
	}
	if mistakes == nil && len(typed.Providers) == 0 {
		return nil, []Problem{{Origin: name, Field: "providers", Message: "must have at least one provider"}}
	}
	if mistakes != nil {
		return nil, fromMistakes(name, mistakes)
	}
	return typed.Providers, nil
}

// notExecutable says why a file can't be run.
func (l *loader) notExecutable(name string) string {
	info, err := fs.Stat(l.root, strings.TrimPrefix(name, "/"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "the plugin " + name + " does not exist"
	case err != nil:
		return "the plugin " + name + " can't be run: " + plain(err).Error()
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "the plugin " + name + " is not an executable file"
	}
	return ""
}

// validateProviders checks every documented constraint.
func validateProviders(of []kubelet.CredentialProvider, gates Gates) (errs field.ErrorList) {
	for i := range of {
		p, at := &of[i], field.NewPath("providers").Index(i)
		switch {
		case p.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case strings.ContainsAny(p.Name, "/ ") || p.Name == "." || p.Name == "..":
			errs = append(errs, field.Invalid(at.Child("name"), p.Name, "must be the name of a file, without / and spaces"))
		}
		if !slices.Contains(providerVersions, p.APIVersion) {
			errs = append(errs, field.NotSupported(at.Child("apiVersion"), p.APIVersion, providerVersions))
		}
		if len(p.MatchImages) == 0 {
			errs = append(errs, field.Required(at.Child("matchImages"), "at least one pattern"))
		}
		for j, pattern := range p.MatchImages {
			if _, err := url.Parse("https://" + pattern); err != nil || pattern == "" {
				errs = append(errs, field.Invalid(at.Child("matchImages").Index(j), pattern, "must be host[:port][/path]"))
			}
		}
		switch d := p.DefaultCacheDuration; {
		case d == nil:
			errs = append(errs, field.Required(at.Child("defaultCacheDuration"), ""))
		case d.Duration < 0:
			errs = append(errs, field.Invalid(at.Child("defaultCacheDuration"), d.Duration.String(), "must be at least 0"))
		}
		if p.TokenAttributes != nil {
			errs = append(errs, validateTokens(p, at.Child("tokenAttributes"), gates)...)
		}
	}
	return errs
}

func validateTokens(p *kubelet.CredentialProvider, at *field.Path, gates Gates) (errs field.ErrorList) {
	t := p.TokenAttributes
	if !gates.on(tokenGate) {
		errs = append(errs, field.Forbidden(at, "needs feature gate "+tokenGate))
	}
	if p.APIVersion != providerVersions[0] {
		errs = append(errs, field.Forbidden(at, "needs apiVersion "+providerVersions[0]))
	}
	if t.ServiceAccountTokenAudience == "" {
		errs = append(errs, field.Required(at.Child("serviceAccountTokenAudience"), ""))
	}
	switch {
	case t.RequireServiceAccount == nil:
		errs = append(errs, field.Required(at.Child("requireServiceAccount"), ""))
	case !*t.RequireServiceAccount && len(t.RequiredServiceAccountAnnotationKeys) > 0:
		errs = append(errs, field.Forbidden(at.Child("requiredServiceAccountAnnotationKeys"), "needs requireServiceAccount"))
	}
	types := []kubelet.ServiceAccountTokenCacheType{
		kubelet.ServiceAccountServiceAccountTokenCacheType, kubelet.TokenServiceAccountTokenCacheType,
	}
	if !slices.Contains(types, t.CacheType) {
		errs = append(errs, field.NotSupported(at.Child("cacheType"), t.CacheType, types))
	}
	seen := map[string]bool{}
	for _, list := range []struct {
		name string
		keys []string
	}{
		{"requiredServiceAccountAnnotationKeys", t.RequiredServiceAccountAnnotationKeys},
		{"optionalServiceAccountAnnotationKeys", t.OptionalServiceAccountAnnotationKeys},
	} {
		for i, k := range list.keys {
			at := at.Child(list.name).Index(i)
			for _, reason := range validation.IsQualifiedName(strings.ToLower(k)) {
				errs = append(errs, field.Invalid(at, k, reason))
			}
			if seen[k] {
				errs = append(errs, field.Duplicate(at, k))
			}
			seen[k] = true
		}
	}
	return errs
}

// provider is a plugin as the agent uses it.
func provider(p *kubelet.CredentialProvider) imagepull.Provider {
	out := imagepull.Provider{
		Name: p.Name, Images: p.MatchImages, APIVersion: p.APIVersion, CacheDuration: p.DefaultCacheDuration.Duration,
		Args: p.Args,
	}
	for _, e := range p.Env {
		out.Env = append(out.Env, e.Name+"="+e.Value)
	}
	if t := p.TokenAttributes; t != nil {
		out.Token = &imagepull.ProviderToken{
			Audience: t.ServiceAccountTokenAudience, Required: *t.RequireServiceAccount,
			RequiredAnnotations: t.RequiredServiceAccountAnnotationKeys,
			OptionalAnnotations: t.OptionalServiceAccountAnnotationKeys,
			PerToken:            t.CacheType == kubelet.TokenServiceAccountTokenCacheType,
		}
	}
	return out
}
