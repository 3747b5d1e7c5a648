package apicontract

import (
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

func tokenFor(p *v1.Pod, seconds int64) authenticationv1.TokenRequestSpec {
	return authenticationv1.TokenRequestSpec{
		Audiences: []string{"contract.test"}, ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
	}
}

// accountAndPod makes a service account and a pod that uses it.
func (s *suite) accountAndPod() (string, *v1.Pod) {
	s.Helper()
	account := s.made(&v1.ServiceAccount{ObjectMeta: s.meta("sa")}).GetName()
	p := s.bound("p")
	p.Spec.ServiceAccountName = account
	return account, s.podOf(s.made(p))
}

func testToken(s *suite) {
	account, p := s.accountAndPod()
	before := s.now()
	first := s.token(account, tokenFor(p, 1200)).ok()
	left := first.ExpirationTimestamp.Sub(before)
	if first.Token == "" || left < 1190*time.Second || left > 1300*time.Second {
		s.Errorf("a token of 1200 s ends in %v; its length is %d", left, len(first.Token))
	}
	if second := s.token(account, tokenFor(p, 1200)).ok(); second.Token == first.Token {
		s.Errorf("two requests gave the same token")
	}
}

func testTokenRefused(s *suite) {
	account, p := s.accountAndPod()
	s.token(s.name+"-nobody", tokenFor(p, 1200)).fails(port.NotFound)
	s.token(account, tokenFor(p, 60)).fails(port.Invalid)
	s.token(account, tokenFor(otherUID(p), 1200)).fails(port.Conflict)
	gone := with(p, func(p *v1.Pod) { p.Name += "-gone" })
	s.token(account, tokenFor(gone, 1200)).fails(port.NotFound)
}
