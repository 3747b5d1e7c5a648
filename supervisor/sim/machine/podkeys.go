package machine

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ port.PodKeys = (*Host)(nil)

// NewPodKey implements port.PodKeys. The keys of a machine are numbered: a run is the same each time.
func (h *Host) NewPodKey(ctx context.Context, keyType string, done func(port.PodKey, error)) {
	var key port.PodKey
	h.do(ctx, Call{Verb: "NewPodKey"}, hostLatency, func(err error) { done(key, err) }, func() error {
		h.keys++
		text := fmt.Sprintf("simulated %s %d\n", keyType, h.keys)
		key = port.PodKey{Key: podspec.NewPrivateKey([]byte(text)), Proof: []byte("proof of " + text)}
		return nil
	})
}

// WrittenCertificate implements port.PodKeys. A simulated certificate is a PEM block with the time when it expires
// (RFC 3339).
func (h *Host) WrittenCertificate(
	ctx context.Context, at port.CertificateFiles, done func(*podspec.IssuedCertificate, error),
) {
	var found *podspec.IssuedCertificate
	call := Call{Verb: "WrittenCertificate", Pod: string(at.Pod), Volume: at.Volume}
	h.do(ctx, call, hostLatency, func(err error) { done(found, err) }, func() error {
		dirs := h.pods[at.Pod]
		if dirs == nil || dirs.contents[at.Volume] == nil {
			return nil
		}
		text := fileOf(dirs.contents[at.Volume], at.Source.CredentialBundlePath)
		if text == nil {
			text = append(fileOf(dirs.contents[at.Volume], at.Source.KeyPath),
				fileOf(dirs.contents[at.Volume], at.Source.CertificateChainPath)...)
		}
		begin := max(bytes.Index(text, []byte("-----BEGIN")), 0)
		block, _ := pem.Decode(text)
		if block == nil || begin == 0 {
			return nil
		}
		expires, err := time.Parse(time.RFC3339, string(block.Bytes))
		if err != nil {
			return &port.Error{Verb: call.Verb, Object: call.object(), Detail: err.Error()}
		}
		found = &podspec.IssuedCertificate{
			Key: podspec.NewPrivateKey(text[:begin]), Chain: text[begin:], Expires: expires,
		}
		return nil
	})
}

// fileOf is a copy of a file, nil if there is none.
func fileOf(c *volumefiles.Content, path string) []byte {
	for i := range c.Files {
		if path != "" && c.Files[i].Path == path {
			return bytes.Clone(c.Files[i].Data)
		}
	}
	return nil
}
