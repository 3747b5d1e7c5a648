package csr

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"

	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
)

// First requests until there is a certificate. Its error is that of ctx. All tries, also those of the next process, are
// one request: somebody who approves by hand has one to approve.
func (k *Keeper) First(ctx context.Context) error {
	for retry := newRetry(); k.Current() == nil; {
		wish := k.config.Template()
		if wish == nil {
			pause(ctx, changePeriod)
		} else if err := k.first(ctx, wish); err != nil && ctx.Err() == nil {
			k.config.Log.Warn().Str("signer", k.config.SignerName).Str("error",
				err.Error()).Msg("certificate request failed; retrying soon")
			pause(ctx, pauseAfter(err, &retry))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (k *Keeper) first(ctx context.Context, wish *x509.CertificateRequest) error {
	key, err := pendingKey(k.config.Pending)
	if err != nil {
		return err
	}
	name, err := k.nameOf(key, wish)
	if err != nil {
		return err
	}
	if err := k.request(ctx, wish, key, metav1.ObjectMeta{Name: name}); err != nil {
		return err
	}
	if k.Current() == nil {
		return fmt.Errorf("the certificate of the request %s has expired: delete that", name)
	}
	if err := os.Remove(k.config.Pending); err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.config.Log.Warn().Str("error", err.Error()).
			Msg("cannot remove the private key of a certificate request, which was signed: nobody needs the file any more")
	}
	return nil
}

// nameOf names a request by its content.
func (k *Keeper) nameOf(key crypto.Signer, wish *x509.CertificateRequest) (string, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", err
	}
	parts := [][]byte{public, []byte(wish.Subject.String())}
	for _, u := range k.config.Usages {
		parts = append(parts, []byte(u))
	}
	sum := sha256.Sum256(bytes.Join(parts, []byte{0}))
	return "node-csr-" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// pendingKey reads the key of a file, and makes one if there is none that can be read.
func pendingKey(path string) (crypto.Signer, error) {
	if text, err := os.ReadFile(path); err == nil {
		if parsed, err := keyutil.ParsePrivateKeyPEM(text); err == nil {
			if key, ok := parsed.(crypto.Signer); ok {
				return key, nil
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	bare, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bare})
	return key, durable.WriteAt(path, text, keyMode, durable.Whole)
}
