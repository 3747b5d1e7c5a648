package imagepull

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Credential is a name and a password for a registry. The zero value is no credential.
type Credential struct {
	Username, Password string
	// Email is deprecated, and no registry is told of it. It tells pull secrets apart: see Hash.
	Email string
}

// Hash tells a credential from others, and nothing of what it is, in pull records (KEP-2535): the hex SHA-256 of its
// JSON as the configuration of a registry client.
func (c Credential) Hash() string {
	data, err := json.Marshal(struct {
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Email    string `json:"email,omitempty"`
	}{c.Username, c.Password, c.Email})
	if err != nil {
		panic(err) // three strings
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// Owner is whose a credential is.
type Owner uint8

const (
	// Node: each pod of this node has it.
	Node Owner = iota
	// OfSecret: those that name a pull secret.
	OfSecret
	// OfServiceAccount: those that run as a service account, whose token a credential provider plugin was given.
	OfServiceAccount
)

// Source is where a credential is from. The zero value is the node.
type Source struct {
	Owner                Owner
	UID, Namespace, Name string
}

// Offer is a credential for an image, and where it is from.
type Offer struct {
	Credential
	Source Source
}

// Fitting are the credentials for an image, in the order in which to try them: the longest path first. The old name of
// the default registry counts if nothing else fits.
func Fitting(r Reference, logins []Login) (fit []Offer) {
	logins, keys := inOrder(logins)
	seen := map[Offer]bool{}
	for i := range fitting(r, keys) {
		if o := (Offer{logins[i].Credential, logins[i].Source}); !seen[o] {
			seen[o] = true
			fit = append(fit, o)
		}
	}
	return fit
}

// inOrder are logins in the order in which they are tried, and their keys.
func inOrder(logins []Login) (sorted []Login, keys []string) {
	type keyed struct {
		key string
		at  int
	}
	all := make([]keyed, len(logins))
	for i := range logins {
		all[i] = keyed{registryKey(logins[i].Registry), i}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Compare(b.key, a.key) })
	for _, k := range all {
		sorted, keys = append(sorted, logins[k.at]), append(keys, k.key)
	}
	return sorted, keys
}

// fitting are the places of the keys that fit an image.
func fitting(r Reference, keys []string) iter.Seq[int] {
	return func(yield func(int) bool) {
		none := true
		for i, k := range keys {
			if Match(k, r) {
				if none = false; !yield(i) {
					return
				}
			}
		}
		if !none || r.Domain != defaultDomain {
			return
		}
		for i, k := range keys {
			if k == legacyDomain && !yield(i) {
				return
			}
		}
	}
}

// Login is one registry of a docker configuration, or of the answer of a credential provider plugin.
type Login struct {
	// Registry is host[:port][/path], which may begin with a scheme.
	Registry string
	Credential
	// Source is set by who knows it.
	Source Source
}

// Match says whether an image is in a repository that a pattern names: host[:port][/path]. A * in the host matches part
// of one label, the port must be the same, and the path a prefix of the image's.
func Match(pattern string, r Reference) bool {
	host, prefix := pattern, ""
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

// splitPort takes the brackets of an IPv6 address away: as a pattern they would stand for one letter.
func splitPort(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") && strings.Contains(host, ":") {
		host = host[1 : len(host)-1]
	}
	return host, port
}

// login is the entry of a docker configuration for a registry.
type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Email    string `json:"email"`
	// Auth is base64 of username:password, and takes precedence.
	Auth string `json:"auth"`
}

// ofSecret reads a secret; ok is false if it holds no docker configuration.
func ofSecret(s *v1.Secret) (logins []Login, ok bool) {
	switch data := s.Data[v1.DockerConfigJsonKey]; {
	case s.Type == v1.SecretTypeDockerConfigJson && len(data) > 0:
		return DockerConfig(data, false)
	case s.Type == v1.SecretTypeDockercfg && len(s.Data[v1.DockerConfigKey]) > 0:
		return DockerConfig(s.Data[v1.DockerConfigKey], true)
	default:
		return nil, false
	}
}

// DockerConfig reads a docker configuration: config.json, or .dockercfg, which is legacy. The logins are sorted.
func DockerConfig(data []byte, legacy bool) (out []Login, ok bool) {
	var file struct {
		Auths map[string]login `json:"auths"`
	}
	into := any(&file)
	if legacy {
		into = &file.Auths
	}
	if json.Unmarshal(data, into) != nil {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(file.Auths)) {
		l := file.Auths[name]
		c := Credential{Username: l.Username, Password: l.Password}
		if l.Auth != "" {
			var fine bool
			if c, fine = decodeAuth(l.Auth); !fine {
				return nil, false
			}
		}
		c.Email = l.Email
		out = append(out, Login{Registry: name, Credential: c})
	}
	return out, true
}

func decodeAuth(s string) (Credential, bool) {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(s), "="))
	if err != nil {
		return Credential{}, false
	}
	user, password, ok := strings.Cut(string(raw), ":")
	return Credential{Username: user, Password: password}, ok
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
