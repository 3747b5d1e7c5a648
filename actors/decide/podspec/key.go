package podspec

import "time"

// PrivateKey is a private key. It has no way into a text: formatting, encoding and tracing it show nothing of it. It is
// behind a function, because package fmt follows pointers.
type PrivateKey struct{ pem func() []byte }

// NewPrivateKey makes one of a PEM block, and takes ownership of it.
func NewPrivateKey(pem []byte) PrivateKey { return PrivateKey{func() []byte { return pem }} }

// PEM is the key as a PEM block. It must not be changed.
func (k PrivateKey) PEM() []byte {
	if k.pem == nil {
		return nil
	}
	return k.pem()
}

// String says that there is a key.
func (PrivateKey) String() string { return "(private key)" }

// GoString is String.
func (k PrivateKey) GoString() string { return k.String() }

// IssuedCertificate is a certificate of a pod, with its private key.
type IssuedCertificate struct {
	Key PrivateKey
	// Chain is the certificate and those of intermediate authorities, as PEM blocks.
	Chain []byte
	// RefreshAt is when to ask for the next one, Expires when this one is of no more use.
	RefreshAt, Expires time.Time
}
