package imagepull

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Credential is a name and a password for a registry. The zero value is no credential.
type Credential struct{ Username, Password string }

// Credentials are the entries of pull secrets that fit an image, in the order in which to try them:
// within a secret, the longest path first. broken names secrets without a readable configuration.
//
// Secrets are of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. Their keys are
// registries, with an optional port and path. The path must be a prefix of the image's path. A * in
// the host name matches part of one label. https://index.docker.io/v1/ is the key of docker.io.
// (Kubernetes documentation, "Images", "Interpretation of config.json")
func Credentials(image string, secrets []*v1.Secret) (fit []Credential, broken []string) {
	r, err := Parse(image)
	if err != nil {
		return nil, nil
	}
	for _, s := range secrets {
		entries, ok := dockerConfig(s)
		if !ok {
			broken = append(broken, s.Name)
			continue
		}
		slices.SortFunc(entries, func(a, b entry) int {
			return cmp.Or(cmp.Compare(b.key, a.key), cmp.Compare(a.name, b.name))
		})
		found := false
		for _, e := range entries {
			if e.fits(r) {
				found = true
				fit = add(fit, e.Credential)
			}
		}
		for _, e := range entries {
			if !found && r.Domain == defaultDomain && e.key == legacyDomain {
				fit = add(fit, e.Credential)
			}
		}
	}
	return fit, broken
}

func add(list []Credential, c Credential) []Credential {
	if slices.Contains(list, c) {
		return list
	}
	return append(list, c)
}

// entry is one registry of a docker configuration.
type entry struct {
	// key is host[:port][/path], name the original key.
	key, name string
	Credential
}

// fits says whether e is for the repository of an image.
func (e *entry) fits(r Reference) bool {
	host, prefix := e.key, ""
	if i := strings.IndexByte(host, '/'); i >= 0 {
		host, prefix = host[:i], host[i+1:]
	}
	host, port := splitPort(host)
	domain, domainPort := splitPort(r.Domain)
	patterns, labels := strings.Split(host, "."), strings.Split(domain, ".")
	if port != domainPort || len(patterns) != len(labels) || !strings.HasPrefix(r.Path, prefix) {
		return false
	}
	for i, p := range patterns {
		if ok, err := path.Match(p, labels[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// login is the entry of a docker configuration for a registry.
type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// Auth is base64 of username:password, and takes precedence.
	Auth string `json:"auth"`
}

// dockerConfig reads a secret; ok is false if it holds no docker configuration.
func dockerConfig(s *v1.Secret) (entries []entry, ok bool) {
	logins := map[string]login{}
	switch {
	case s.Type == v1.SecretTypeDockerConfigJson && len(s.Data[v1.DockerConfigJsonKey]) > 0:
		var file struct {
			Auths map[string]login `json:"auths"`
		}
		if json.Unmarshal(s.Data[v1.DockerConfigJsonKey], &file) != nil {
			return nil, false
		}
		logins = file.Auths
	case s.Type == v1.SecretTypeDockercfg && len(s.Data[v1.DockerConfigKey]) > 0:
		if json.Unmarshal(s.Data[v1.DockerConfigKey], &logins) != nil {
			return nil, false
		}
	default:
		return nil, false
	}
	for name, l := range logins { // order-free: sorted by Credentials
		c := Credential{l.Username, l.Password}
		if l.Auth != "" {
			var fine bool
			if c, fine = decodeAuth(l.Auth); !fine {
				return nil, false
			}
		}
		entries = append(entries, entry{key: registryKey(name), name: name, Credential: c})
	}
	return entries, true
}

func decodeAuth(s string) (Credential, bool) {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(s), "="))
	if err != nil {
		return Credential{}, false
	}
	user, password, ok := strings.Cut(string(raw), ":")
	return Credential{user, password}, ok
}

// registryKey is a key of a docker configuration without its scheme, and without the version of the
// registry's API that old keys have: /v1/ and /v2/.
func registryKey(name string) string {
	k := strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
	host, rest, _ := strings.Cut(k, "/")
	if r, ok := strings.CutPrefix(rest, "v1/"); ok {
		rest = r
	} else if r, ok := strings.CutPrefix(rest, "v2/"); ok {
		rest = r
	}
	if rest == "" {
		return host
	}
	return host + "/" + rest
}
