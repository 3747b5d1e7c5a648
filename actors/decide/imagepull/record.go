package imagepull

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// Record says with whose credentials an image was pulled. It is never changed.
type Record = kubelet.ImagePulledRecord

const (
	recordVersion = "kubelet.config.k8s.io/v1beta1"
	oldVersion    = "kubelet.config.k8s.io/v1alpha1"
	recordKind    = "ImagePulledRecord"
	intentKind    = "ImagePullIntent"

	// maxLearned bounds how many secrets a record learns of without a pull, as in a kubelet; maxKnown how many it has, and
	// how many names of a preloaded image.
	maxLearned = 100
	maxKnown   = 1000
)

// RecordFileName is the name of the file of an image: by its name for an intent, by its ID for a record.
func RecordFileName(image string) string {
	return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(image)))
}

// EncodeIntent is the file of an intent.
func EncodeIntent(image string) []byte {
	return encode(&kubelet.ImagePullIntent{
		TypeMeta: metav1.TypeMeta{Kind: intentKind, APIVersion: recordVersion}, Image: image,
	})
}

// EncodeRecord is the file of a record.
func EncodeRecord(r *Record) []byte {
	out := *r
	out.TypeMeta = metav1.TypeMeta{Kind: recordKind, APIVersion: recordVersion}
	return encode(&out)
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and a time
	}
	return append(data, '\n')
}

// ParseIntent reads the file of that name. Errors are for people.
func ParseIntent(name string, data []byte) (image string, err error) {
	var i kubelet.ImagePullIntent
	if err := decode(data, &i, func() metav1.TypeMeta { return i.TypeMeta }, intentKind); err != nil {
		return "", err
	}
	if RecordFileName(i.Image) != name {
		return "", fmt.Errorf("it is for image %.200q, which is not that of its file name", i.Image)
	}
	if _, err := ParseReference(i.Image); err != nil {
		return "", err
	}
	return i.Image, nil
}

// ParseRecord reads the record in the file of that name. Errors are for people.
func ParseRecord(name string, data []byte) (*Record, error) {
	r := &Record{}
	if err := decode(data, r, func() metav1.TypeMeta { return r.TypeMeta }, recordKind); err != nil {
		return nil, err
	}
	if RecordFileName(r.ImageRef) != name {
		return nil, fmt.Errorf("it is for image %.200q, which is not that of its file name", r.ImageRef)
	}
	return r, nil
}

func decode(data []byte, into any, meta func() metav1.TypeMeta, kind string) error {
	if len(data) == 0 {
		return errors.New("the file is empty")
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more after the content")
	}
	switch m := meta(); {
	case m.Kind != kind:
		return fmt.Errorf("its kind is %.60q, not %s", m.Kind, kind)
	case m.APIVersion != recordVersion && m.APIVersion != oldVersion:
		return fmt.Errorf("its apiVersion is %.60q, not %s", m.APIVersion, recordVersion)
	}
	return nil
}

// VerificationPolicy says for which images the credentials of pods are verified
// (imagePullCredentialsVerificationPolicy).
type VerificationPolicy struct {
	Verification kubelet.ImagePullCredentialsVerificationPolicy
	// Allowlist are images without tag and digest, or prefixes that end with /*
	// (preloadedImagesVerificationAllowlist).
	Allowlist []string
}

// Verifies says whether a pod may use an image that is there only if RecordAllows says so. pulled: there is a record or
// an intent of the image, so that it was not there before the first agent, and it is not Preloaded under this name.
func (p VerificationPolicy) Verifies(image string, pulled bool) bool {
	switch p.Verification {
	case kubelet.NeverVerify:
		return false
	case kubelet.NeverVerifyPreloadedImages:
		return pulled
	case kubelet.NeverVerifyAllowlistedImages:
		name := Repository(image)
		return !slices.ContainsFunc(p.Allowlist, func(of string) bool {
			prefix, wild := strings.CutSuffix(of, "*")
			return name == of || wild && strings.HasPrefix(name, prefix)
		})
	default:
		return true
	}
}

// Repository is the name of an image as it is written, without tag and digest.
func Repository(image string) string {
	parsed, err := reference.Parse(image)
	if err != nil {
		return image
	}
	if digested, is := parsed.(reference.Digested); is {
		image = strings.TrimSuffix(image, "@"+digested.Digest().String())
	}
	if tagged, is := parsed.(reference.Tagged); is {
		image = strings.TrimSuffix(image, ":"+tagged.Tag())
	}
	return image
}

// CredentialsFor are the credentials in a record with which an image was pulled under its name; false without any.
func CredentialsFor(r *Record, image string) (of kubelet.ImagePullCredentials, ok bool) {
	if r == nil {
		return of, false
	}
	of, ok = r.CredentialMapping[Repository(image)]
	return of, ok
}

// RecordAllows says whether a pod with these offers may use an image that is there. learned is an offer that the record
// does not have yet and should: the same secret with another content, or the same content in another secret.
func RecordAllows(r *Record, image string, offers []Offer) (ok bool, learned *Offer) {
	of, ok := CredentialsFor(r, image)
	if !ok || of.NodePodsAccessible {
		return ok, nil
	}
	room := len(of.KubernetesSecrets) < maxLearned
	for i := range offers {
		o := &offers[i]
		if o.Source.Owner != OfSecret {
			continue
		}
		mine := secret(o)
		if slices.Contains(of.KubernetesSecrets, mine) {
			return true, nil
		}
		for _, s := range of.KubernetesSecrets {
			content := s.CredentialHash != "" && s.CredentialHash == mine.CredentialHash
			switch {
			case content && !room:
				return true, nil
			case content, sameSecret(s, mine) && room:
				return true, o
			}
		}
	}
	for i := range offers {
		if s := offers[i].Source; s.Owner == OfServiceAccount {
			return slices.Contains(of.KubernetesServiceAccounts, account(s)), nil // a pod has one
		}
	}
	return false, nil
}

// Preloaded says whether an image had this name before an agent pulled it under another one, and no agent has pulled it
// under this one since.
//
// A record has such names beside those of pulls, without credentials, and with a tag or a digest, which those of pulls
// never have: a kubelet looks for none of them, and keeps them. In a record that a kubelet has begun there are none, so
// nobody knows what was preloaded.
func Preloaded(r *Record, image string) bool {
	if r == nil {
		return false
	}
	had := false
	for name, of := range r.CredentialMapping { // order-free: any
		had = had || preloaded(name, &of) && SameImage(image, name)
	}
	if !had {
		return false
	}
	for name, of := range r.CredentialMapping { // order-free: any
		if !preloaded(name, &of) && sameRepository(image, name) {
			return false
		}
	}
	return true
}

// preloaded says whether a name in a record is that of a preloaded image.
func preloaded(name string, of *kubelet.ImagePullCredentials) bool {
	return strings.ContainsAny(name[strings.LastIndex(name, "/")+1:], ":@") &&
		!of.NodePodsAccessible && len(of.KubernetesSecrets)+len(of.KubernetesServiceAccounts) == 0
}

func sameRepository(a, b string) bool {
	x, err := ParseReference(a)
	y, err2 := ParseReference(b)
	return err == nil && err2 == nil && x.Name() == y.Name()
}

// preload notes the names that an image had before it was pulled.
func preload(r *Record, names []string) {
	for _, name := range names[:min(len(names), maxKnown)] {
		of, err := ParseReference(name)
		if err != nil {
			continue // such as <none>:<none>
		}
		if r.CredentialMapping == nil {
			r.CredentialMapping = map[string]kubelet.ImagePullCredentials{}
		}
		r.CredentialMapping[of.String()] = kubelet.ImagePullCredentials{}
	}
}

func secret(o *Offer) kubelet.ImagePullSecret {
	return kubelet.ImagePullSecret{
		UID: o.Source.UID, Namespace: o.Source.Namespace, Name: o.Source.Name, CredentialHash: o.Hash(),
	}
}

func sameSecret(a, b kubelet.ImagePullSecret) bool {
	return a.UID == b.UID && a.Namespace == b.Namespace && a.Name == b.Name
}

func account(s Source) kubelet.ImagePullServiceAccount {
	return kubelet.ImagePullServiceAccount{UID: s.UID, Namespace: s.Namespace, Name: s.Name}
}

// AddPull is a record of the image with that ID after it was pulled under its name with one of these offers; r may be
// nil. No offers: nobody knows with what. had are the names that the image had before its first pull. changed says
// whether it differs.
func AddPull(
	r *Record, id, image string, offers []Offer, now time.Time, had ...string,
) (out *Record, changed bool) {
	if out = r; r == nil {
		out, changed = &Record{ImageRef: id}, true
		preload(out, had)
	} else {
		out = r.DeepCopy()
	}
	before := len(out.CredentialMapping)
	maps.DeleteFunc(out.CredentialMapping, func(name string, of kubelet.ImagePullCredentials) bool {
		return preloaded(name, &of) && sameRepository(name, image)
	})
	changed = changed || len(out.CredentialMapping) < before
	name := Repository(image)
	for i := range offers {
		of := out.CredentialMapping[name]
		if of.NodePodsAccessible || !add(&of, &offers[i]) {
			continue
		}
		if out.CredentialMapping == nil {
			out.CredentialMapping = map[string]kubelet.ImagePullCredentials{}
		}
		out.CredentialMapping[name], changed = of, true
	}
	if !changed {
		return r, false
	}
	out.LastUpdatedTime = metav1.NewTime(now)
	return out, true
}

func add(of *kubelet.ImagePullCredentials, o *Offer) bool {
	switch o.Source.Owner {
	case OfSecret:
		s := secret(o)
		same := func(x kubelet.ImagePullSecret) bool { return sameSecret(x, s) }
		if i := slices.IndexFunc(of.KubernetesSecrets, same); i >= 0 {
			changed := of.KubernetesSecrets[i] != s
			of.KubernetesSecrets[i] = s
			return changed
		}
		if len(of.KubernetesSecrets) >= maxKnown {
			return false
		}
		of.KubernetesSecrets = append(of.KubernetesSecrets, s)
		slices.SortFunc(of.KubernetesSecrets, func(a, b kubelet.ImagePullSecret) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	case OfServiceAccount:
		s := account(o.Source)
		if slices.Contains(of.KubernetesServiceAccounts, s) || len(of.KubernetesServiceAccounts) >= maxKnown {
			return false
		}
		of.KubernetesServiceAccounts = append(of.KubernetesServiceAccounts, s)
		slices.SortFunc(of.KubernetesServiceAccounts, func(a, b kubelet.ImagePullServiceAccount) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	default:
		*of = kubelet.ImagePullCredentials{NodePodsAccessible: true}
	}
	return true
}
