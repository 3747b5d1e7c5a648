package kube

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// DescribeCredential describes a client's credential, and what seems wrong with it: an
// apiserver that refuses it gives no reason. It never shows the credential itself.
func DescribeCredential(c *rest.Config) string {
	switch {
	case c.ExecProvider != nil:
		return fmt.Sprintf("the apiserver rejects the credential of the plugin %s", c.ExecProvider.Command)
	case c.BearerTokenFile != "":
		return fmt.Sprintf("the apiserver rejects the token in %s", c.BearerTokenFile)
	case c.BearerToken != "":
		return "the apiserver rejects the token in the kubeconfig"
	case c.CertFile != "":
		data, err := os.ReadFile(c.CertFile)
		if err != nil {
			return err.Error()
		}
		return describeCertificate("client certificate "+c.CertFile, data, time.Now())
	case len(c.CertData) > 0:
		return describeCertificate("client certificate in the kubeconfig", c.CertData, time.Now())
	case c.Username != "":
		return fmt.Sprintf("the apiserver rejects user name %s and its password", c.Username)
	default:
		return "the kubeconfig names no credential"
	}
}

func describeCertificate(what string, data []byte, now time.Time) string {
	block, more := pem.Decode(data)
	for block != nil && block.Type != "CERTIFICATE" { // its key may be in the same file, and come first
		block, more = pem.Decode(more)
	}
	if block == nil {
		return "the " + what + " is not PEM"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Sprintf("the %s: %v", what, err)
	}
	who, until := cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case now.After(cert.NotAfter):
		return fmt.Sprintf("the %s of %s expired at %s: renew it", what, who, until)
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("the %s of %s is not valid before %s: check this machine's clock", what, who,
			cert.NotBefore.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("the apiserver rejects the %s of %s, which is valid until %s", what, who, until)
	}
}
