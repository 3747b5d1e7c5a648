package imagepull

import (
	"errors"
	"fmt"
	"strings"
)

// Reference is the name of an image, taken apart.
type Reference struct {
	// Domain is the registry, with its port if it names one.
	Domain string
	// Path is the repository within it.
	Path string
	// Tag and Digest may be empty, or both be set.
	Tag, Digest string
}

const (
	defaultDomain = "docker.io"
	// legacyDomain is an old name of defaultDomain.
	legacyDomain = "index.docker.io"
	library      = "library/"
	// maxPath is the longest repository path, without the domain.
	maxPath = 255
)

// Parse reads the name of an image as users write it, and completes it as
// registries' clients do (OCI distribution spec, and the familiar short names):
// no registry means docker.io, and there one word means library/word. A name
// with neither tag nor digest gets no tag here; see String.
func Parse(s string) (Reference, error) {
	r, err := parse(s)
	if err != nil { // with the words in front that people look for
		return Reference{}, fmt.Errorf("couldn't parse image name %q: invalid reference format: %w", s, err)
	}
	return r, nil
}

func parse(s string) (Reference, error) {
	var r Reference
	if s == "" {
		return r, errors.New("it is empty")
	}
	rest := s
	if i := strings.IndexByte(rest, '@'); i >= 0 {
		r.Digest, rest = rest[i+1:], rest[:i]
		if err := checkDigest(r.Digest); err != nil {
			return Reference{}, err
		}
	}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.Contains(rest[i:], "/") {
		r.Tag, rest = rest[i+1:], rest[:i]
		if !isTag(r.Tag) {
			return Reference{}, fmt.Errorf("%q can't be a tag: letters, digits, _, . and -, at most 128", r.Tag)
		}
	}
	if isHex(s, 64) {
		return Reference{}, errors.New("64 hexadecimal digits are an ID, not a name")
	}
	r.Domain, r.Path = split(rest)
	if !isDomain(r.Domain) {
		return Reference{}, fmt.Errorf("%q can't be a registry", r.Domain)
	}
	if strings.ToLower(r.Path) != r.Path {
		return Reference{}, fmt.Errorf("repository name (%s) must be lowercase", r.Path)
	}
	for part := range strings.SplitSeq(r.Path, "/") {
		if !isPathPart(part) {
			return Reference{}, fmt.Errorf("%q can't be part of a repository: lowercase letters and digits, with single . or _ or __ or any number of - in between", part)
		}
	}
	if len(r.Path) > maxPath {
		return Reference{}, fmt.Errorf("the repository has %d characters, at most %d are allowed", len(r.Path), maxPath)
	}
	return r, nil
}

// String is the full name, with the tag latest if it has neither tag nor digest.
func (r Reference) String() string {
	s := r.Name()
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		return s + "@" + r.Digest
	}
	if r.Tag == "" {
		s += ":latest"
	}
	return s
}

// Name is the full name of the repository.
func (r Reference) Name() string { return r.Domain + "/" + r.Path }

// split divides a name into registry and repository. What stands before the
// first slash is a registry only if it can't be a plain word.
func split(name string) (domain, path string) {
	first, rest, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(first, ".:") && first != "localhost" && strings.ToLower(first) == first {
		domain, path = defaultDomain, name
	} else {
		domain, path = first, rest
	}
	if domain == legacyDomain {
		domain = defaultDomain
	}
	if domain == defaultDomain && !strings.Contains(path, "/") {
		path = library + path
	}
	return domain, path
}

// isDomain: labels joined by dots, or an IPv6 address in brackets; then maybe a port.
func isDomain(s string) bool {
	host, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		i := strings.IndexByte(s, ']')
		if i < 2 || strings.Trim(s[1:i], "0123456789abcdefABCDEF:") != "" {
			return false
		}
		switch {
		case i == len(s)-1:
			return true
		case s[i+1] != ':':
			return false
		}
		return isDigits(s[i+2:])
	}
	if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port, hasPort = s[:i], s[i+1:], true
	}
	if hasPort && !isDigits(port) {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlnum(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	return true
}

// isPathPart: runs of lowercase letters and digits, joined by one dot, one or
// two underscores, or any number of dashes.
func isPathPart(s string) bool {
	i := run(s, 0)
	if i == 0 {
		return false
	}
	for i < len(s) {
		j := i
		switch s[i] {
		case '.':
			j++
		case '_':
			for j < len(s) && s[j] == '_' && j-i < 2 {
				j++
			}
		case '-':
			for j < len(s) && s[j] == '-' {
				j++
			}
		}
		k := run(s, j)
		if j == i || k == j {
			return false
		}
		i = k
	}
	return true
}

func run(s string, i int) int {
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= '0' && s[i] <= '9') {
		i++
	}
	return i
}

func isTag(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '_' && s[i] != '.' && s[i] != '-' {
			return false
		}
	}
	return true
}

func checkDigest(s string) error {
	algorithm, hex, ok := strings.Cut(s, ":")
	sizes := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}
	if n := sizes[algorithm]; !ok || n == 0 || len(hex) != n || !isHex(hex, n) {
		return fmt.Errorf("%q can't be a digest: sha256:, sha384: or sha512:, and its lowercase hexadecimal digits", s)
	}
	return nil
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range n {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isAlnum(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}
