package csr_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/csr"
	"github.com/troupe-dev/troupe/tests/check"
)

// cluster signs what it is asked for, when it is looked at for the third time.
type cluster struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	life time.Duration

	mu sync.Mutex
	// refuse and absent are said to those who ask; nothing is while pending.
	refuse, pending bool
	absent          error
	asked           map[string]*certificates.CertificateSigningRequest
	looks           map[string]int
	// lived is how long certificates had been valid that were replaced.
	lived []time.Duration
}

func newCluster(t *testing.T, life time.Duration) *cluster {
	key := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return &cluster{t: t, key: key, life: life, asked: map[string]*certificates.CertificateSigningRequest{}, looks: map[string]int{}}
}

func (c *cluster) RequestCertificate(_ context.Context, r *certificates.CertificateSigningRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.absent != nil {
		return c.absent
	}
	if c.asked[r.Name] != nil {
		return &port.Error{Kind: port.AlreadyExists}
	}
	if r.Name == "" {
		r.Name = fmt.Sprintf("%s%d", r.GenerateName, len(c.asked)+1)
	}
	c.asked[r.Name] = r.DeepCopy()
	return nil
}

func (c *cluster) CertificateRequest(_ context.Context, name string) (*certificates.CertificateSigningRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.asked[name].DeepCopy()
	switch c.looks[name]++; {
	case c.absent != nil:
		return nil, c.absent
	case c.looks[name] < 3 || c.pending:
	case c.refuse:
		r.Status.Conditions = []certificates.CertificateSigningRequestCondition{{Type: certificates.CertificateDenied, Status: corev1.ConditionTrue, Reason: "NotYou"}}
	default:
		r.Status.Certificate = c.sign(r.Spec.Request)
	}
	return r, nil
}

func (c *cluster) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func (c *cluster) sign(request []byte) []byte {
	block, _ := pem.Decode(request)
	wish, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	now := time.Now()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: wish.Subject, DNSNames: wish.DNSNames, IPAddresses: wish.IPAddresses,
		NotBefore: now, NotAfter: now.Add(c.life), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, wish.PublicKey, c.key)
	if err != nil {
		c.t.Error(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// wishes may change.
type wishes struct {
	mu sync.Mutex
	is *x509.CertificateRequest
}

func (w *wishes) get() *x509.CertificateRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.is
}

func (w *wishes) set(ips ...string) {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, DNSNames: []string{"n1"}}
	for _, ip := range ips {
		r.IPAddresses = append(r.IPAddresses, net.ParseIP(ip))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.is = r
}

func keeper(t *testing.T, dir string, c *cluster, w *wishes) *csr.Keeper {
	t.Helper()
	k := check.Value(csr.New(csr.Config{
		Signer: c, SignerName: certificates.KubeletServingSignerName, Usages: []certificates.KeyUsage{certificates.UsageServerAuth},
		Template: w.get, Store: csr.Store{Dir: dir, Name: "kubelet-server"}, Draw: func() float64 { return 0.5 }, Log: zerolog.Nop(),
		Pending: filepath.Join(dir, "key.tmp"),
		Rotated: func(lived time.Duration) { c.set(func() { c.lived = append(c.lived, lived) }) },
	}))(t)
	return k
}

// TestLifeOfACertificate: none at first; then one, which a restart finds; another
// one before its end, and at once when it is to be for other addresses.
func TestLifeOfACertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, 100*time.Hour), &wishes{}
		k := keeper(t, dir, c, w)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d) // on the test's clock
			synctest.Wait()
			if n := c.count(); n != want {
				t.Fatalf("%d requests, want %d", n, want)
			}
		}
		after(time.Hour, 0) // nobody knows yet what for
		if k.Current() != nil {
			t.Error("there is one")
		}
		w.set("192.0.2.1")
		after(time.Minute, 1)
		first := k.Current()
		if first == nil || first.Leaf.VerifyHostname("192.0.2.1") != nil {
			t.Fatalf("it is %+v", first)
		}
		after(78*time.Hour, 1)
		after(3*time.Hour, 2) // 80 % of its life are over
		second := k.Current()
		if second == first {
			t.Error("it is not renewed")
		}
		w.set("192.0.2.1", "192.0.2.2")
		after(time.Minute, 3)
		third := k.Current()
		if third.Leaf.VerifyHostname("192.0.2.2") != nil {
			t.Errorf("it is for %v", third.Leaf.IPAddresses)
		}
		cancel()
		running.Wait()
		if l := c.lived; len(l) != 2 || l[0] < 80*time.Hour || l[0] > 81*time.Hour || l[1] > 3*time.Hour {
			t.Errorf("the certificates before the second and the third had been valid for %v", l)
		}
		again := keeper(t, dir, c, w)
		if got := again.Current(); got == nil || !bytes.Equal(got.Certificate[0], third.Certificate[0]) {
			t.Error("what there was is not found again")
		}
		time.Sleep(101 * time.Hour)
		if again.Current() != nil {
			t.Error("one that has ended is shown")
		}
	})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%d files, %v: want two certificates and a link", len(entries), err)
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
	}
}

// TestChangedWhilePending: nobody has signed the request yet, and what it is to be for changes. Another one is made at
// once; nobody waits for the first.
func TestChangedWhilePending(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, 100*time.Hour), &wishes{}
		c.pending = true
		w.set("192.0.2.1")
		k := keeper(t, dir, c, w)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		time.Sleep(5 * time.Minute)
		w.set("192.0.2.1", "203.0.113.1")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := c.count(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		c.set(func() { c.pending = false })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if has := k.Current(); has == nil || has.Leaf.VerifyHostname("203.0.113.1") != nil || c.count() != 2 {
			t.Errorf("it has %v after %d requests", has, c.count())
		}
		cancel()
		running.Wait()
	})
}

// TestNobodySigns: it is asked seldom, and what there is goes on.
func TestNobodySigns(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, 10*time.Hour), &wishes{}
		w.set("192.0.2.1")
		k := keeper(t, dir, c, w)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		time.Sleep(time.Minute)
		synctest.Wait()
		has := k.Current()
		if has == nil {
			t.Fatal("there is none")
		}
		c.set(func() { c.refuse = true })
		time.Sleep(9 * time.Hour) // one hour of trying
		synctest.Wait()
		if n := c.count(); k.Current() != has || n < 5 || n > 30 {
			t.Errorf("after %d requests it has %v", n, k.Current())
		}
		c.set(func() { c.absent = errors.New("nobody answers") })
		time.Sleep(50 * time.Minute)
		c.set(func() { c.refuse, c.absent = false, nil })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if now := k.Current(); now == nil || now == has {
			t.Error("it was not renewed when that was possible again")
		}
		cancel()
		running.Wait()
	})
}

// TestFirst: it is waited for, whatever goes wrong.
func TestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, time.Hour), &wishes{}
		c.absent = errors.New("nobody answers")
		w.set("192.0.2.1")
		k := keeper(t, t.TempDir(), c, w)
		got := make(chan error, 1)
		go func() { got <- k.First(t.Context()) }()
		time.Sleep(time.Minute)
		c.set(func() { c.absent = nil })
		if err := <-got; err != nil || k.Current() == nil {
			t.Errorf("%v, %v", err, k.Current())
		}
		if err := k.First(t.Context()); err != nil || c.count() != 1 {
			t.Errorf("%v: one that is there is asked for again", err)
		}
		never, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c.set(func() { c.refuse = true })
		if err := keeper(t, t.TempDir(), c, w).First(never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v of one that is refused", err)
		}
	})
}

// TestFirstIsOneRequest: somebody who approves by hand has one request to approve, however long it waits, and however
// often the agent starts.
func TestFirstIsOneRequest(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, time.Hour), &wishes{}
		c.pending = true
		w.set("192.0.2.1")
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			check.Equal(t, keeper(t, dir, c, w).First(ctx), context.DeadlineExceeded, "the error of one that nobody signs")
			cancel()
		}
		check.Equal(t, c.count(), 1, "requests in two hours")
		c.set(func() { c.pending = false })
		k := keeper(t, dir, c, w)
		check.Fatal(t, k.First(t.Context()))
		check.Equal(t, c.count(), 1, "requests until it was signed")
		_, err := os.Stat(filepath.Join(dir, "key.tmp"))
		check.Equal(t, errors.Is(err, fs.ErrNotExist), true, "the key of the request is gone")
		time.Sleep(2 * time.Hour) // it has expired, and the request is still there
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		check.Fatal(t, keeper(t, dir, c, w).First(ctx))
		check.Equal(t, c.count(), 2, "requests after its end: the key is another one")
	})
}

// TestAsksAgainSoon: an apiserver that could not be reached is asked again half a minute after it is there.
func TestAsksAgainSoon(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, 10*time.Hour), &wishes{}
		c.absent = errors.New("nobody answers")
		w.set("192.0.2.1")
		k := keeper(t, dir, c, w)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		time.Sleep(time.Hour)
		c.set(func() { c.absent = nil })
		time.Sleep(36 * time.Second)
		synctest.Wait()
		check.Equal(t, k.Current() != nil, true, "it has a certificate")
		cancel()
		running.Wait()
	})
}

func TestNotApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newCluster(t, time.Hour), &wishes{}
		c.looks["csr-1"] = -10_000 // never
		w.set("192.0.2.1")
		err := keeper(t, t.TempDir(), c, w).Renew(t.Context(), w.get())
		check.Says(t, err, "kubectl certificate approve csr-1", "the error")
	})
}

func TestBrokenStore(t *testing.T) {
	s := csr.Store{Dir: t.TempDir(), Name: "x"}
	if got, err := s.Load(); got != nil || err != nil {
		t.Errorf("%v %v of an empty one", got, err)
	}
	check.Fatal(t, os.WriteFile(s.Current(), []byte("half"), 0o600))
	check.Says(t, check.Err(s.Load()), "remove it", "the error")
	check.Fails(t, check.Err(s.Save(time.Now(), []byte("no"), []byte("pem"))), "what is no certificate is kept")
}

// TestRenewAt: it is within the certificate's life, and the later the more was drawn.
func TestRenewAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "begin"), 0)
		life := time.Duration(rapid.Int64Range(1, int64(100*365*24*time.Hour)).Draw(t, "life"))
		x, y := rapid.Float64Range(0, 1).Draw(t, "x"), rapid.Float64Range(0, 1).Draw(t, "y")
		leaf := &x509.Certificate{NotBefore: begin, NotAfter: begin.Add(life)}
		at, other := csr.RenewAt(leaf, x), csr.RenewAt(leaf, y)
		if at.Before(begin) || at.After(leaf.NotAfter) || x < y && at.After(other) {
			t.Fatalf("%s after %s of %s", at.Sub(begin), other.Sub(begin), life)
		}
	})
}

func TestIsFor(t *testing.T) {
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "n", Organization: []string{"o"}}, DNSNames: []string{"a", "b"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1).To4()}}
	for want, change := range map[string]func(*x509.CertificateRequest){
		"yes":             func(*x509.CertificateRequest) {},
		"no, its name":    func(r *x509.CertificateRequest) { r.Subject.CommonName = "m" },
		"no, its group":   func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"p"} },
		"no, a host":      func(r *x509.CertificateRequest) { r.DNSNames = []string{"c"} },
		"no, an address":  func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 2)} },
		"yes, not of all": func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} },
	} {
		wish := &x509.CertificateRequest{Subject: leaf.Subject, DNSNames: leaf.DNSNames, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}
		change(wish)
		check.Equal(t, csr.IsFor(leaf, wish), strings.HasPrefix(want, "yes"), "%v", want)
	}
}
