package podcertificate

import (
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ref   = podobjects.Ref{Kind: podobjects.Certificate, Namespace: "shop", Name: "creds"}
	mine  = podspec.NewPrivateKey([]byte("mine"))
)

const chain = "-----BEGIN CERTIFICATE-----\nb25l\n-----END CERTIFICATE-----\n"

// held is a certificate that is refreshed after an hour, and expires after two.
func held() *podspec.IssuedCertificate {
	return &podspec.IssuedCertificate{Key: mine, Chain: []byte(chain), RefreshAt: start.Add(time.Hour), Expires: start.Add(2 * time.Hour)}
}

// in is a certificate in a state, which has an older one if has is true.
func in(s State, has bool) *Certificate {
	c := &Certificate{State: s}
	if has {
		c.Held = held()
	}
	switch s {
	case Requested:
		c.Request, c.key, c.at = "req-1", podspec.NewPrivateKey([]byte("next")), start
	case Failed:
		c.reason, c.at, c.failures = "no", start, 1
	case Denied:
		c.reason = "no"
	}
	return c
}

func request(name string, change func(*certificatesv1beta1.PodCertificateRequest)) *certificatesv1beta1.PodCertificateRequest {
	r := &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	if change != nil {
		change(r)
	}
	return r
}

func condition(kind string) func(*certificatesv1beta1.PodCertificateRequest) {
	return func(r *certificatesv1beta1.PodCertificateRequest) {
		r.Status.Conditions = []metav1.Condition{{Type: "Other"}, {Type: kind, Reason: "Because", Message: "of it"}}
		if kind == "Issued" {
			r.Status.CertificateChain = "text\n" + strings.Replace(chain, "\n", "\nk: v\n\n", 1) + chain
			r.Status.BeginRefreshAt, r.Status.NotAfter = new(metav1.NewTime(start.Add(3*time.Hour))), new(metav1.NewTime(start.Add(4*time.Hour)))
		}
	}
}

func without(f func(s *certificatesv1beta1.PodCertificateRequestStatus)) func(*certificatesv1beta1.PodCertificateRequest) {
	return func(r *certificatesv1beta1.PodCertificateRequest) {
		condition("Issued")(r)
		f(&r.Status)
	}
}

// TestStates goes through all states and events.
func TestStates(t *testing.T) {
	seen := func(name string, change func(*certificatesv1beta1.PodCertificateRequest)) func(*Certificate) []Event {
		return func(c *Certificate) []Event { return c.Seen(request(name, change), start, .5) }
	}
	look := func(after time.Duration, shown bool) func(*Certificate) []Event {
		return func(c *Certificate) []Event { return c.Look(start.Add(after), shown) }
	}
	all := []State{Wanted, Requested, Fresh, Denied, Failed}
	for _, c := range []struct {
		event string
		do    func(*Certificate) []Event
		// want are the states that follow those of all.
		want []State
	}{
		{"issued", seen("req-1", condition("Issued")), []State{Wanted, Fresh, Fresh, Denied, Failed}},
		{"denied", seen("req-1", condition("Denied")), []State{Wanted, Denied, Fresh, Denied, Failed}},
		{"failed", seen("req-1", condition("Failed")), []State{Wanted, Failed, Fresh, Denied, Failed}},
		{"pending", seen("req-1", nil), all},
		{"another request", seen("req-2", condition("Issued")), all},
		{"issued without a chain", seen("req-1", without(func(s *certificatesv1beta1.PodCertificateRequestStatus) { s.CertificateChain = "x" })), []State{Wanted, Failed, Fresh, Denied, Failed}},
		{"issued without a refresh time", seen("req-1", without(func(s *certificatesv1beta1.PodCertificateRequestStatus) { s.BeginRefreshAt = nil })), []State{Wanted, Failed, Fresh, Denied, Failed}},
		{"issued without an end", seen("req-1", without(func(s *certificatesv1beta1.PodCertificateRequestStatus) { s.NotAfter = nil })), []State{Wanted, Failed, Fresh, Denied, Failed}},
		{"the request is gone", func(c *Certificate) []Event { c.Gone("req-1"); return nil }, []State{Wanted, Wanted, Fresh, Denied, Failed}},
		{"another is gone", func(c *Certificate) []Event { c.Gone("req-2"); return nil }, all},
		{"a second", look(time.Second, false), all},
		{"a minute", look(time.Minute, false), []State{Wanted, Requested, Fresh, Denied, Wanted}},
		{"ten minutes", look(10*time.Minute, false), []State{Wanted, Wanted, Fresh, Denied, Wanted}},
		{"ten minutes, and it is shown", look(10*time.Minute, true), []State{Wanted, Requested, Fresh, Denied, Wanted}},
		{"an hour", look(time.Hour, true), []State{Wanted, Requested, Wanted, Denied, Wanted}},
	} {
		for i, s := range all {
			for _, has := range []bool{false, true} {
				if s == Fresh && !has {
					continue
				}
				cert := in(s, has)
				before := cert.Held
				events := c.do(cert)
				check.Equal(t, cert.State, c.want[i], "%s, %s", s, c.event)
				issued := s == Requested && cert.State == Fresh
				check.Equal(t, cert.Held != before, issued, "%s, %s: another certificate", s, c.event)
				if (cert.State == Requested) != (cert.Request != "") || cert.State == Fresh && cert.Held == nil {
					t.Errorf("%s, %s: %+v", s, c.event, cert)
				}
				if ends := s == Requested && (cert.State == Denied || cert.State == Failed); (len(events) == 1) != ends {
					t.Errorf("%s, %s: events %v", s, c.event, events)
				}
				// Look has always done what was due: else the agent would spin.
				now := start.Add(time.Hour)
				cert.Look(now, true)
				if due := cert.Due(); !due.IsZero() && !due.After(now) {
					t.Errorf("%s, %s: due at %v again", s, c.event, due)
				}
			}
		}
	}
}

func TestIssued(t *testing.T) {
	c := in(Requested, true)
	c.Seen(request("req-1", condition("Issued")), start, .5)
	if h := c.Held; string(h.Key.PEM()) != "next" || string(h.Chain) != chain+chain || !h.Expires.Equal(start.Add(4*time.Hour)) ||
		!h.RefreshAt.Equal(start.Add(3*time.Hour+150*time.Second)) {
		t.Errorf("got %s of %q, %v to %v", h.Key.PEM(), h.Chain, h.RefreshAt, h.Expires)
	}
}

// TestRefreshIsPast: a node whose clock is ahead does not ask for the next certificate as soon as it has one.
func TestRefreshIsPast(t *testing.T) {
	now, asked := start.Add(24*time.Hour), 0
	c := in(Requested, false)
	for end := now.Add(10 * time.Minute); now.Before(end); now = now.Add(time.Second) {
		if c.State == Wanted {
			asked++
			c.Asked("req-1", mine, now)
		}
		c.Seen(request("req-1", condition("Issued")), now, .5)
		c.Look(now, true)
	}
	check.Equal(t, asked, 9, "asked %d times in ten minutes", asked)
}

func TestFound(t *testing.T) {
	early := held()
	early.RefreshAt = time.Time{}
	for _, c := range []struct {
		what    string
		held    *podspec.IssuedCertificate
		now     time.Time
		want    State
		refresh time.Duration
	}{
		{"nothing", nil, start, Wanted, 0},
		{"what the pod has", held(), start, Fresh, time.Hour},
		{"what lies in the volume", early, start, Fresh, 5 * time.Second},
		{"an expired one", early, start.Add(2 * time.Hour), Wanted, 0},
	} {
		cert := &Certificate{}
		cert.Found(c.held, c.now, .5)
		if cert.State != c.want || cert.State == Fresh && !cert.Held.RefreshAt.Equal(start.Add(c.refresh)) {
			t.Errorf("%s: %+v", c.what, cert)
		}
	}
	if !early.RefreshAt.IsZero() {
		t.Error("what others have was changed")
	}
}

// TestTold: people are told once of each certificate.
func TestTold(t *testing.T) {
	c := in(Denied, true)
	var got []string
	for m := range 180 {
		for _, e := range c.Look(start.Add(time.Duration(m)*time.Minute), true) {
			got = append(got, start.Add(time.Duration(m)*time.Minute).Format("15:04 ")+e.Reason)
		}
	}
	check.Equal(t, strings.Join(got, ", "), "01:10 CertificateOverdueForRefresh, 02:00 CertificateExpired", "it")
	for s, want := range map[State]string{Denied: "Denied PodCertificateRequest shop/req-1 was denied, ", Failed: "Failed PodCertificateRequest shop/req-1 failed, "} {
		e := in(Requested, false).Seen(request("req-1", condition(strings.ToUpper(s.String()[:1])+s.String()[1:])), start, 0)
		check.Equal(t, e[0].Reason+" "+e[0].Message, want+`reason="Because", message="of it"`, "%s", s)
	}
}

func TestEntry(t *testing.T) {
	for _, c := range []struct {
		state   State
		has     bool
		trouble string
		want    podobjects.State
		message string
	}{
		{Reading, false, "", podobjects.Unknown, ""},
		{Wanted, false, "", podobjects.Unknown, ""},
		{Wanted, false, "away", podobjects.Failed, "away"},
		{Wanted, true, "away", podobjects.Found, ""},
		{Requested, false, "", podobjects.Unknown, "PodCertificateRequest shop/req-1 is not issued yet: waiting for the signer example.com/mesh"},
		{Requested, true, "", podobjects.Found, ""},
		{Fresh, true, "", podobjects.Found, ""},
		{Denied, false, "", podobjects.Failed, "no"},
		{Denied, true, "", podobjects.Failed, "no"},
		{Failed, false, "", podobjects.Failed, "no"},
		{Failed, true, "", podobjects.Found, ""},
	} {
		cert := in(c.state, c.has)
		e := cert.Entry(ref, "example.com/mesh", c.trouble)
		if e.Ref != ref || e.State != c.want || e.Message != c.message || (e.State == podobjects.Found) != (e.Object == any(cert.Held)) && c.has {
			t.Errorf("%s, %v: %+v", c.state, c.has, e)
		}
	}
}

func TestMetric(t *testing.T) {
	for _, c := range []struct {
		state State
		has   bool
		after time.Duration
		want  string
	}{
		{Wanted, false, 0, "not_yet_issued"}, {Requested, false, 0, "not_yet_issued"}, {Fresh, true, 0, "fresh"},
		{Requested, true, 69 * time.Minute, "fresh"}, {Requested, true, 70 * time.Minute, "overdue_for_refresh"},
		{Wanted, true, 2 * time.Hour, "expired"}, {Denied, true, 0, "denied"}, {Failed, false, 0, "failed"},
	} {
		check.Equal(t, in(c.state, c.has).Metric(start.Add(c.after)), c.want, "%s after %v", c.state, c.after)
	}
}

// TestBackoff: a signer that fails again and again is asked less and less often.
func TestBackoff(t *testing.T) {
	c, now := in(Requested, false), start
	var waits []string
	for range 8 {
		c.Seen(request("req-1", condition("Failed")), now, 0)
		waits = append(waits, c.Due().Sub(now).String())
		now = c.Due()
		c.Look(now, false)
		c.Asked("req-1", mine, now)
	}
	check.Equal(t, strings.Join(waits, " "), "1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h0m0s 1h0m0s", "it")
}

func TestObject(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}}
	r := Object(Asking{
		Pod: p, Node: "n1", NodeUID: "nu", AccountUID: "au", Proof: []byte("proof"), Source: &v1.PodCertificateProjection{
			SignerName: "example.com/mesh", KeyType: "ED25519", MaxExpirationSeconds: new(int32(7200)), UserAnnotations: map[string]string{"a/b": "c"},
		},
	})
	s := r.Spec
	if r.Namespace != "shop" || r.GenerateName != "req-" || len(r.OwnerReferences) != 1 || r.OwnerReferences[0] != (metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u1"}) {
		t.Errorf("%+v", r.ObjectMeta)
	}
	if s.PodName != "web" || s.PodUID != "u1" || s.ServiceAccountName != "default" || s.ServiceAccountUID != "au" || s.NodeName != "n1" || s.NodeUID != "nu" ||
		s.SignerName != "example.com/mesh" || *s.MaxExpirationSeconds != 7200 || s.UnverifiedUserAnnotations["a/b"] != "c" || string(s.StubPKCS10Request) != "proof" {
		t.Errorf("%+v", s)
	}
}
