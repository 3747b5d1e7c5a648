package csr

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
)

// Store keeps a certificate with its key in a directory, where a kubelet has it:
//
//	<name>-2026-11-21-21-08-10.pem    key and certificates, for each that was given
//	<name>-current.pem                links to the one that counts
//
// The two newest are kept.
type Store struct{ Dir, Name string }

// stamp is how times are written in the names of files.
const stamp = "2006-01-02-15-04-05"

// keyMode: readable by us alone.
const keyMode = 0o600

// Current is the path of the certificate in use.
func (s Store) Current() string { return filepath.Join(s.Dir, s.Name+"-current.pem") }

// Load reads it; nil if there is none.
func (s Store) Load() (*tls.Certificate, error) {
	data, err := os.ReadFile(s.Current())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it to request a new certificate", s.Current(), err)
	}
	return &pair, nil
}

// Save replaces the certificate in use and its key (PEM). A reader finds either the old or the
// new pair, complete.
func (s Store) Save(now time.Time, certPEM, keyPEM []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("the issued certificate: %w", err)
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	before, err := os.Readlink(s.Current())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		before = "" // a file where the link belongs: it is replaced
	}
	name := s.Name + "-" + now.Format(stamp) + ".pem"
	both := append(keyPEM[:len(keyPEM):len(keyPEM)], certPEM...)
	if err := durable.WriteAt(filepath.Join(s.Dir, name), both, keyMode, durable.Whole); err != nil {
		return nil, err
	}
	link := s.Current() + ".new"
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.Symlink(name, link); err != nil {
		return nil, err
	}
	if err := os.Rename(link, s.Current()); err != nil {
		return nil, err
	}
	return &pair, s.removeBut(name, filepath.Base(before))
}

// removeBut removes old certificates.
func (s Store) removeBut(keep ...string) error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		middle, ok := strings.CutPrefix(e.Name(), s.Name+"-")
		middle, pem := strings.CutSuffix(middle, ".pem")
		if _, err := time.Parse(stamp, middle); !ok || !pem || err != nil || e.Name() == keep[0] || e.Name() == keep[1] {
			continue
		}
		if err := os.Remove(filepath.Join(s.Dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
