package podcertificate

import (
	"encoding/pem"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
)

// Asking is what a request is made of.
type Asking struct {
	Pod    *v1.Pod
	Source *v1.PodCertificateProjection
	// Node is the node's name. NodeUID and AccountUID are those of the node and of the pod's service account.
	Node                string
	NodeUID, AccountUID types.UID
	// Proof is a PKCS#10 request that was signed with the key.
	Proof []byte
}

// Object is the PodCertificateRequest that a node makes for a source.
func Object(a Asking) *certificatesv1beta1.PodCertificateRequest {
	p, s := a.Pod, a.Source
	r := &certificatesv1beta1.PodCertificateRequest{Spec: certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: s.SignerName, PodName: p.Name, PodUID: p.UID, ServiceAccountName: podobjects.ServiceAccount(p),
		ServiceAccountUID: a.AccountUID, NodeName: types.NodeName(a.Node), NodeUID: a.NodeUID,
		MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: a.Proof,
		UnverifiedUserAnnotations: s.UserAnnotations,
	}}
	r.Namespace, r.GenerateName = p.Namespace, "req-"
	// It goes with its pod.
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}}
	return r
}

// cleanChain is a chain of certificates without headers, and without what is between them.
func cleanChain(text string) []byte {
	var out []byte
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	return out
}
