package imagepull

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// PullSecrets are the pull secrets of a pod, read once for all of its images: they may hold tens of thousands of
// credentials, and a pod may have thousands of images.
//
// Secrets are of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. Their keys are
// registries, with an optional port and path. The path must be a prefix of the image's path. A * in
// the host name matches part of one label. https://index.docker.io/v1/ is the key of docker.io.
// (Kubernetes documentation, "Images", "Interpretation of config.json")
type PullSecrets struct {
	known          bool
	absent, broken []string
	// offers are those of all secrets, the longest key first, and keys the registries that they are for.
	offers []Offer
	keys   []string
	fits   map[string]*Fit
}

// NewPullSecrets reads secrets. They count together: the longest key comes first, whosever it is, and of equal ones
// that of the first secret. known: of each it is known whether it is there.
// absent are the names of those that can't be had.
func NewPullSecrets(known bool, found []*v1.Secret, absent []string) *PullSecrets {
	p := &PullSecrets{known: known, absent: absent, fits: map[string]*Fit{}}
	var all []Login
	for _, s := range found {
		logins, ok := ofSecret(s)
		if !ok {
			p.broken = append(p.broken, s.Name)
			continue
		}
		for _, l := range logins {
			l.Source = Source{OfSecret, string(s.UID), s.Namespace, s.Name}
			all = append(all, l)
		}
	}
	all, p.keys = inOrder(all)
	for _, l := range all {
		p.offers = append(p.offers, Offer{l.Credential, l.Source})
	}
	return p
}

// Fit is what of the pull secrets of a pod fits one image. It never changes.
type Fit struct {
	// Known: of each secret it is known whether it is there.
	Known bool
	// Absent are the names of secrets that can't be had, Broken of those without a readable configuration.
	Absent, Broken []string
	offers         []Offer
	// at are the places in offers, each offer once.
	at []int32
}

// Fit is what fits an image: the longest path first, whosever secret it is. The same image gives the same one again.
func (p *PullSecrets) Fit(image string) *Fit {
	if f := p.fits[image]; f != nil {
		return f
	}
	f := &Fit{Known: p.known, Absent: p.absent, Broken: p.broken, offers: p.offers}
	p.fits[image] = f
	r, err := ParseReference(image)
	if err != nil {
		return f
	}
	seen := map[Offer]bool{}
	for at := range fitting(r, p.keys) {
		if !seen[p.offers[at]] {
			seen[p.offers[at]] = true
			f.at = append(f.at, int32(at)) //nolint:gosec // a Secret has 1 MiB
		}
	}
	return f
}

// Len is how many offers there are. A nil Fit has none.
func (f *Fit) Len() int {
	if f == nil {
		return 0
	}
	return len(f.at)
}

// All are the offers, in the order in which to try them.
func (f *Fit) All() iter.Seq[Offer] {
	return func(yield func(Offer) bool) {
		for i := range f.Len() {
			if !yield(f.offers[f.at[i]]) {
				return
			}
		}
	}
}

// Same says whether two are the same, for the same image.
func (f *Fit) Same(o *Fit) bool {
	if f == o || f == nil || o == nil {
		return f == o
	}
	if f.Known != o.Known || len(f.at) != len(o.at) || !slices.Equal(f.Absent, o.Absent) ||
		!slices.Equal(f.Broken, o.Broken) {
		return false
	}
	for i := range f.at {
		if f.offers[f.at[i]] != o.offers[o.at[i]] {
			return false
		}
	}
	return true
}

// Unusable are the names of secrets that can't be had, or hold nothing.
func (f *Fit) Unusable() []string {
	if f == nil {
		return nil
	}
	return slices.Concat(f.Absent, f.Broken)
}
