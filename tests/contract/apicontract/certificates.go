package apicontract

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// signingKey is always the same, so that the objects of each run are.
var signingKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

// trustBundle has one authority's certificate, as an apiserver wants it.
func (s *suite) trustBundle(name string) port.APIObject {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "contract"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: s.now().AddDate(-1, 0, 0), NotAfter: s.now().AddDate(1, 0, 0),
	}
	der := check.Value(x509.CreateCertificate(rand.Reader, authority, authority, signingKey.Public(), signingKey))(s)
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: s.clusterMeta(name), Spec: certificatesv1beta1.ClusterTrustBundleSpec{
			TrustBundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		},
	}
}

// certificateRequest is one for a pod that need not be there: only nodes may not ask for those of other pods.
func (s *suite) certificateRequest(name string) port.APIObject {
	stub := check.Value(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, signingKey))(s)
	return &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: s.meta(name), Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: "contract.test/signer", PodName: "p", PodUID: "1", ServiceAccountName: "default", ServiceAccountUID: "2",
			NodeName: "n", NodeUID: "3", StubPKCS10Request: stub,
		},
	}
}
