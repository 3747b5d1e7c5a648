package imagepull

import (
	"cmp"
	_ "crypto/sha256" // digests of these are known
	_ "crypto/sha512"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Reference is a parsed image name.
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
)

// ParseReference reads an image name as users write it, and completes it as clients of registries do (OCI
// distribution spec, and the familiar short names). Without a registry it is in docker.io, where a
// single word means library/word. A name with neither tag nor digest gets no tag here; see String.
func ParseReference(s string) (Reference, error) {
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		// The kubelet's words come first, because people search for them. The library's say little.
		return Reference{},
			fmt.Errorf("couldn't parse image name %q: %w: want [registry[:port]/]path[:tag][@sha256:hex], the path in lower "+
				"case, no spaces", s, err)
	}
	r := Reference{Domain: reference.Domain(named), Path: reference.Path(named)}
	if r.Domain == "" { // the library knows no domain with an underscore; registries have such names
		r.Domain, r.Path, _ = strings.Cut(named.Name(), "/")
	}
	if tagged, is := named.(reference.Tagged); is {
		r.Tag = tagged.Tag()
	}
	if digested, is := named.(reference.Digested); is {
		r.Digest = digested.Digest().String()
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

// SameImage reports whether two names are of one image: see ImageKey.
func SameImage(name, other string) bool {
	key := ImageKey(name)
	return key != "" && key == ImageKey(other)
}

// ImageKey is what two names of one image have in common: the repository, and the digest if they have one, else the
// tag. It is empty for what is no name.
func ImageKey(name string) string {
	r, err := ParseReference(name)
	switch {
	case err != nil:
		return ""
	case r.Digest != "":
		return r.Name() + "@" + r.Digest
	default:
		return r.Name() + ":" + cmp.Or(r.Tag, "latest")
	}
}
