// Package podkey has the private key of a pod, and its certificate, as values that show nothing of the key.
package podkey

import "time"

// Private is a private key. It has no way into a text: formatting, encoding and tracing it show nothing of it. It is
// behind a function, because package fmt follows pointers.
type Private struct{ pem func() []byte }

// New makes one of a PEM block, and takes ownership of it.
func New(pem []byte) Private { return Private{func() []byte { return pem }} }

// PEM is the key as a PEM block. It must not be changed.
func (k Private) PEM() []byte {
	if k.pem == nil {
		return nil
	}
	return k.pem()
}

// String says that there is a key.
func (Private) String() string { return "(private key)" }

// GoString is String.
func (k Private) GoString() string { return k.String() }

// Issued is a certificate of a pod, with its private key.
type Issued struct {
	Key Private
	// Chain is the certificate and those of intermediate authorities, as PEM blocks.
	Chain []byte
	// RefreshAt is when to ask for the next one, Expires when this one is of no more use.
	RefreshAt, Expires time.Time
}
