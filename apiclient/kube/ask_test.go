package kube

import (
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestAsk: what goes where, and what comes back of it.
func TestAsk(t *testing.T) {
	var asked []string
	config := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			give(w, http.StatusCreated, &authenticationv1.TokenReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
				Status:   authenticationv1.TokenReviewStatus{Authenticated: true},
			})
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			give(w, http.StatusCreated, &authorizationv1.SubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
				Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
			})
		case "/apis/certificates.k8s.io/v1/certificatesigningrequests":
			give(w, http.StatusCreated, &certificatesv1.CertificateSigningRequest{
				TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
				ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
			})
		default:
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such request")
		}
	})
	c := newClient(t, Config{REST: config})
	token := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "t"}}
	if err := c.ReviewToken(t.Context(), token, false); err != nil || !token.Status.Authenticated {
		t.Errorf("%v: %+v", err, token)
	}
	access := &authorizationv1.SubjectAccessReview{}
	if err := c.ReviewAccess(t.Context(), access, true); err != nil || !access.Status.Allowed {
		t.Errorf("%v: %+v", err, access)
	}
	wish := &certificatesv1.CertificateSigningRequest{}
	if err := c.RequestCertificate(t.Context(), wish); err != nil || wish.Name != "csr-1" {
		t.Errorf("%v: %+v", err, wish)
	}
	if _, err := c.CertificateRequest(t.Context(), "csr-2"); port.KindOf(err) != port.NotFound {
		t.Errorf("%v", err)
	}
	if n := len(asked); n != 4 || asked[3] != "GET /apis/certificates.k8s.io/v1/certificatesigningrequests/csr-2" {
		t.Errorf("it was asked %v", asked)
	}
	c.Close()
	if err := c.ReviewToken(t.Context(), token, true); port.KindOf(err) != port.Canceled {
		t.Errorf("%v of a closed client", err)
	}
}
