package simcri

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// RegistryImage is an image in a registry.
type RegistryImage struct {
	// SizeBytes of 0 is drawn from the image's name, the same everywhere.
	SizeBytes uint64
	// UID and Username are the image's user (observed.Image).
	UID      *int64
	Username string
	// Credential is required for a pull; nil for none.
	Credential *port.ImageAuth
}

// Registry is a source of images. Many runtimes may share one; it is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	strict  bool
	down    bool
	images  map[string]RegistryImage
	missing map[string]bool
	cache   map[string]*image
}

// NewRegistry makes a registry that has every image.
func NewRegistry() *Registry {
	return &Registry{images: map[string]RegistryImage{}, missing: map[string]bool{}, cache: map[string]*image{}}
}

// NewStrictRegistry makes a registry that has only images added by Put.
func NewStrictRegistry() *Registry {
	g := NewRegistry()
	g.strict = true
	return g
}

// Put adds an image. It panics on an invalid name.
func (g *Registry) Put(name string, img RegistryImage) {
	full := mustName(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.images[full] = img
	delete(g.missing, full)
	delete(g.cache, full)
}

// Withdraw removes an image. It panics on an invalid name.
func (g *Registry) Withdraw(name string) {
	full := mustName(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing[full] = true
	delete(g.images, full)
	delete(g.cache, full)
}

// SetDown stops or restarts the registry.
func (g *Registry) SetDown(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
}

// image is an image that a runtime has or is pulling. It is immutable, so that all runtimes share
// it.
type image struct {
	name   string // normalized
	id     string
	digest string // repository@sha256:…
	// digests has digest, and tags the name if that is no digest: what is shown of all images shares them.
	digests, tags []string
	size          uint64
	uid           *int64
	user          string
	pinned        bool
}

// resolve finds an image for a pull. size overrides the drawn size, unless it is 0.
func (g *Registry) resolve(name string, auth *port.ImageAuth, size uint64) (*image, *port.Error) {
	full, ok := normalName(name)
	if !ok {
		return nil, &port.Error{
			Kind:   port.InvalidImageName,
			Detail: fmt.Sprintf("failed to parse image reference %q: invalid reference format", name),
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	offer, offered := g.images[full]
	switch {
	case g.down:
		return nil, &port.Error{
			Detail: fmt.Sprintf(
				"failed to resolve reference %q: failed to do request: dial tcp: connect: connection refused", full),
		}
	case g.missing[full], g.strict && !offered:
		return nil, &port.Error{Kind: port.ImageNotFound, Detail: "failed to resolve reference: " + full + ": not found"}
	case offer.Credential != nil &&
		(auth == nil || auth.Username != offer.Credential.Username || auth.Password != offer.Credential.Password):
		return nil, &port.Error{Detail: "pull access denied, authorization failed"}
	}
	if img := g.cache[full]; img != nil && (size == 0 || size == img.size) {
		return img, nil
	}
	img := newImage(full)
	img.uid, img.user = offer.UID, offer.Username
	if offer.SizeBytes != 0 {
		img.size = offer.SizeBytes
	}
	if size != 0 {
		img.size = size
		return img, nil
	}
	g.cache[full] = img
	return img, nil
}

// newImage is an image without a description.
func newImage(full string) *image {
	img := &image{name: full, id: "sha256:" + fmt.Sprintf("%x", sha256.Sum256([]byte("image "+full)))}
	repository, digest, ok := strings.Cut(full, "@")
	if !ok {
		img.tags = []string{full}
		repository = full[:strings.LastIndexByte(full, ':')]
		digest = "sha256:" + fmt.Sprintf("%x", sha256.Sum256([]byte("manifest "+full)))
	}
	img.digest = repository + "@" + digest
	img.digests = []string{img.digest}
	h := fnv.New64a()
	h.Write([]byte(full)) //nolint:errcheck // a hash takes everything
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
	sigma := math.Log(float64(imageSizeP99)/float64(imageSizeMedian)) / simport.Z99
	img.size = uint64(min(imageSizeMedian*math.Exp(sigma*rng.NormFloat64()), 4*imageSizeP99))
	return img
}

func (i *image) observe() observed.Image {
	return observed.Image{
		ID: i.id, RepoTags: i.tags, RepoDigests: i.digests, SizeBytes: i.size, Pinned: i.pinned,
		UID: i.uid, Username: i.user,
	}
}

// normalName completes an image's name as containerd does: with registry, and tag or digest.
func normalName(name string) (full string, ok bool) {
	rest, digest, hasDigest := strings.Cut(name, "@")
	tag := "latest"
	if slash, colon := strings.LastIndexByte(rest, '/'), strings.LastIndexByte(rest, ':'); colon > slash {
		rest, tag = rest[:colon], rest[colon+1:]
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if !hasPath || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, path = "docker.io", rest
		if !hasPath {
			path = "library/" + rest
		}
	}
	// valid: only lower-case letters, digits and others.
	valid := func(s, others string) bool {
		return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789"+others) == ""
	}
	const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if !valid(host, upper+".:-") || !valid(path, "._-/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return "", false
	}
	if hasDigest {
		algorithm, sum, _ := strings.Cut(digest, ":")
		if algorithm != "sha256" || len(sum) != 64 || !valid(sum, "") {
			return "", false
		}
		return host + "/" + path + "@" + digest, true
	}
	if !valid(tag, upper+"._-") {
		return "", false
	}
	return host + "/" + path + ":" + tag, true
}

func mustName(name string) string {
	full, ok := normalName(name)
	if !ok {
		panic(fmt.Sprintf("simcri: %q is no image name", name))
	}
	return full
}
