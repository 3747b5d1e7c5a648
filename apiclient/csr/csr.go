// Package csr keeps a certificate signed by the cluster. It sends a request, waits for
// the approval, and sends a new request before the certificate expires or when its
// names change (certificates.k8s.io/v1 CertificateSigningRequest).
package csr

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// answerPatience is how long one request may wait for approval and signature before another
	// one is made: the cluster deletes requests that are pending for long.
	answerPatience = 15 * time.Minute
	// lookPeriod is the first time between checks whether the request is signed. It grows up to
	// lookSeldom.
	lookPeriod  = time.Second
	lookSeldom  = 30 * time.Second
	firstRetry  = 2 * time.Second
	seldomRetry = 5 * time.Minute
	// askRetry is the longest pause while nobody takes the request: the apiserver may be about to start.
	askRetry = 32 * time.Second
	// changePeriod is the time between checks whether the template has changed.
	changePeriod = time.Second
)

// Signer is the cluster. Both calls end with ctx.
type Signer interface {
	// RequestCertificate creates a request, and fills in what the apiserver stored.
	RequestCertificate(context.Context, *certificates.CertificateSigningRequest) error
	CertificateRequest(ctx context.Context, name string) (*certificates.CertificateSigningRequest, error)
}

// Config says which certificate to request, and from whom.
type Config struct {
	Signer Signer
	// SignerName and Usages are of the request's spec.
	SignerName string
	Usages     []certificates.KeyUsage
	// Template is the content of the request; nil while it is unknown. It is called repeatedly.
	Template func() *x509.CertificateRequest
	Store    Store
	// Pending is the file that has the key of First's request until there is a certificate.
	Pending string
	// Draw gives a number from 0 to 1, so that not all nodes renew on the same day.
	Draw func() float64
	// Failed is called for each failed request of Run; nil if unused.
	Failed func()
	// Rotated is called for each certificate that took the place of another, with how long that one had been valid; nil
	// if unused.
	Rotated func(lived time.Duration)
	Log     zerolog.Logger
}

// Validate says what is missing: a mistake of the program.
func (c Config) Validate() error {
	if c.Signer == nil || c.SignerName == "" || len(c.Usages) == 0 || c.Template == nil ||
		c.Store == (Store{}) || c.Draw == nil {
		return errors.New("csr: a signer, its name, usages, a template, a store and a draw are needed")
	}
	return nil
}

// Keeper renews a certificate while it runs.
//
//	             ┌── none, or for something else ──► request ──► signed ──► store
//	load ──► has ┤                                      ▲ └─ refused, not in time ─┐
//	             └── 70–90 % of its life are over ──────┘◄──────── wait ◄──────────┘
type Keeper struct {
	config Config

	mu  sync.Mutex
	has *tls.Certificate
}

// New reads the store. It makes no request yet.
func New(c Config) (*Keeper, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	has, err := c.Store.Load()
	if err != nil {
		return nil, err
	}
	return &Keeper{config: c, has: has}, nil
}

// Current is the valid certificate; nil if there is none, or it has expired.
func (k *Keeper) Current() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.has == nil || time.Now().After(k.has.Leaf.NotAfter) {
		return nil
	}
	return k.has
}

// Run requests a certificate whenever one is due, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	retry := newRetry()
	var due time.Time // unknown
	for ctx.Err() == nil {
		wish := k.config.Template()
		has := k.Current()
		if due.IsZero() && has != nil {
			due = RenewAt(has.Leaf, k.config.Draw())
		}
		if wish == nil || has != nil && IsFor(has.Leaf, wish) && time.Now().Before(due) {
			pause(ctx, changePeriod)
			continue
		}
		err := k.Renew(ctx, wish)
		if errors.Is(err, errOutdated) {
			continue
		}
		if err != nil && ctx.Err() == nil {
			k.config.Log.Warn().Str("signer", k.config.SignerName).Str("error",
				err.Error()).Msg("certificate request failed; retrying later")
			if k.config.Failed != nil {
				k.config.Failed()
			}
			pause(ctx, pauseAfter(err, &retry))
			continue
		}
		retry, due = newRetry(), time.Time{}
	}
}

func newRetry() wait.Backoff {
	return wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.1, Steps: 100, Cap: seldomRetry}
}

// errNotTaken ends a request that could not be made.
var errNotTaken = errors.New("the request was not taken")

func pauseAfter(err error, retry *wait.Backoff) time.Duration {
	d := retry.Step()
	if errors.Is(err, errNotTaken) {
		d = min(d, askRetry)
	}
	return d
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// RenewAt is when to replace a certificate: after 70 to 90 % of its life, depending on draw.
func RenewAt(leaf *x509.Certificate, draw float64) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*draw)))
}

// IsFor reports whether a certificate has the subject and all names of a template.
func IsFor(leaf *x509.Certificate, wish *x509.CertificateRequest) bool {
	if leaf.Subject.CommonName != wish.Subject.CommonName {
		return false
	}
	for _, o := range wish.Subject.Organization {
		if !slices.Contains(leaf.Subject.Organization, o) {
			return false
		}
	}
	for _, name := range wish.DNSNames {
		if !slices.Contains(leaf.DNSNames, name) {
			return false
		}
	}
	for _, ip := range wish.IPAddresses {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// Renew makes one request, and waits for the answer.
func (k *Keeper) Renew(ctx context.Context, wish *x509.CertificateRequest) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return k.request(ctx, wish, key, metav1.ObjectMeta{GenerateName: "csr-"})
}

// request makes a request of that name for a key, and waits for the answer.
func (k *Keeper) request(
	ctx context.Context, wish *x509.CertificateRequest, key crypto.Signer, name metav1.ObjectMeta,
) error {
	der, err := x509.CreateCertificateRequest(rand.Reader, wish, key)
	if err != nil {
		return err
	}
	bare, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bare})
	signed, err := k.ask(ctx, wish, name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		return err
	}
	has, err := k.config.Store.Save(time.Now(), signed, keyPEM)
	if has == nil {
		return err
	}
	if err != nil { // this request has failed all the same
		k.config.Log.Warn().Str("error", err.Error()).Msg("cannot remove old certificate files")
	}
	k.mu.Lock()
	old := k.has
	k.has = has
	k.mu.Unlock()
	if old != nil && k.config.Rotated != nil {
		k.config.Rotated(time.Since(old.Leaf.NotBefore))
	}
	k.config.Log.Info().Str("signer", k.config.SignerName).Time("until", has.Leaf.NotAfter).Msg("certificate issued")
	return nil
}

// ask creates a request, and returns the signed certificate. It does not wait for what is wished no more: somebody may
// approve requests by hand, and a node have got its addresses meanwhile.
func (k *Keeper) ask(
	ctx context.Context, wish *x509.CertificateRequest, named metav1.ObjectMeta, request []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	r := &certificates.CertificateSigningRequest{
		ObjectMeta: named,
		Spec: certificates.CertificateSigningRequestSpec{Request: request, SignerName: k.config.SignerName,
			Usages: k.config.Usages},
	}
	err := k.config.Signer.RequestCertificate(ctx, r)
	if named.Name != "" && port.KindOf(err) == port.AlreadyExists { // ours, of an earlier try
		r, err = k.config.Signer.CertificateRequest(ctx, named.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotTaken, err)
	}
	name := r.Name
	again := wait.Backoff{Duration: lookPeriod, Factor: 1.2, Jitter: 0.1, Steps: 100, Cap: lookSeldom}
	var last error
	for {
		signed, err := answer(r)
		if signed != nil || err != nil {
			return signed, err
		}
		if !k.wanted(ctx, wish, again.Step()) {
			k.config.Log.Info().Str("request", name).
				Msg("the names or addresses for the certificate have changed: requesting another certificate")
			return nil, errOutdated
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the request %s was not signed in time: approve it (kubectl certificate approve %[1]s): %w",
				name, errors.Join(ctx.Err(), last))
		}
		is, err := k.config.Signer.CertificateRequest(ctx, name)
		if last = err; err == nil {
			r = is
		}
	}
}

// errOutdated ends a request whose names have changed.
var errOutdated = errors.New("the request is for other names than are wanted now")

// wanted pauses, and reports whether a certificate for the same is still wanted.
func (k *Keeper) wanted(ctx context.Context, wish *x509.CertificateRequest, d time.Duration) bool {
	for until := time.Now().Add(d); ctx.Err() == nil; {
		if now := k.config.Template(); now != nil && !reflect.DeepEqual(now, wish) {
			return false
		}
		left := time.Until(until)
		if left <= 0 {
			break
		}
		pause(ctx, min(left, changePeriod))
	}
	return true
}

// answer is the signed certificate; nil while there is none.
func answer(r *certificates.CertificateSigningRequest) ([]byte, error) {
	for _, c := range r.Status.Conditions {
		if c.Status != corev1.ConditionFalse &&
			(c.Type == certificates.CertificateDenied || c.Type == certificates.CertificateFailed) {
			return nil, fmt.Errorf("the request %s is %s: %s %s", r.Name, c.Type, c.Reason, c.Message)
		}
	}
	if len(r.Status.Certificate) == 0 {
		return nil, nil
	}
	return r.Status.Certificate, nil
}
