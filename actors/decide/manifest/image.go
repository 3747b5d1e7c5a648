package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// imageRef is an image reference taken apart:
// [registry[:port]/]path[:tag][@algorithm:hex].
type imageRef struct {
	name   string // registry and path as written
	tag    string
	digest string
}

var (
	// Grammar of the OCI distribution specification, "Pulling manifests",
	// with the separators that registries accept in a path component.
	imagePath     = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)
	imageTag      = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	imageDigest   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$`)
	imageRegistry = regexp.MustCompile(`^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*)(:[0-9]+)?$`)
)

const maxImageName = 255

// parseImage takes an image reference apart, or says what is wrong with it.
func parseImage(image string) (imageRef, error) {
	if strings.TrimSpace(image) != image || strings.ContainsAny(image, " \t\n") {
		return imageRef{}, errors.New("an image must not contain spaces")
	}
	ref := imageRef{name: image}
	if name, digest, has := strings.Cut(ref.name, "@"); has {
		if !imageDigest.MatchString(digest) {
			return imageRef{}, fmt.Errorf("%q is not a digest, like sha256:… with 64 hexadecimal digits", digest)
		}
		ref.name, ref.digest = name, digest
	}
	// A colon after the last slash begins the tag; one before it, a port.
	if slash, colon := strings.LastIndexByte(ref.name, '/'), strings.LastIndexByte(ref.name, ':'); colon > slash {
		ref.name, ref.tag = ref.name[:colon], ref.name[colon+1:]
		if !imageTag.MatchString(ref.tag) {
			return imageRef{}, fmt.Errorf("%q is not a tag: letters, digits, '.', '_' and '-', at most 128", ref.tag)
		}
	}
	if len(ref.name) > maxImageName {
		return imageRef{}, fmt.Errorf("the name is longer than %d characters", maxImageName)
	}
	path := ref.name
	if first, rest, has := strings.Cut(path, "/"); has && looksLikeRegistry(first) {
		if !imageRegistry.MatchString(first) {
			return imageRef{}, fmt.Errorf("%q is not a registry, like registry.example.com:5000", first)
		}
		path = rest
	}
	for component := range strings.SplitSeq(path, "/") {
		if !imagePath.MatchString(component) {
			return imageRef{}, fmt.Errorf("%q cannot be part of an image name: lower case letters and digits, separated by '.', '_' or '-'", component)
		}
	}
	return ref, nil
}

// looksLikeRegistry: the part before the first slash is a registry if it could
// not be a path: it has a dot, a port, capital letters, or is localhost.
func looksLikeRegistry(first string) bool {
	return strings.ContainsAny(first, ".:[") || first == "localhost" || strings.ToLower(first) != first
}
