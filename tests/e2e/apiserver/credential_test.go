package apiserver

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestExpiredCredential: one line says what is wrong and what to do; it is tried
// again, not too often; and a renewed certificate is found.
//
//tier:served
func TestExpiredCredential(t *testing.T) {
	noLeaks(t)
	id := lab.Identity{User: "test-expired", Groups: []string{"system:masters"}, Files: true, Lifetime: -time.Minute}
	path := as(t, id)
	var log lines
	c := client(t, path, zerolog.New(&log))
	_, err := get(t, c, port.APIKey{Kind: port.NodeKind, Name: "n"})
	wantKind(t, "get", err, port.Unauthorized)
	began := time.Now()
	first := follow(t, c, port.Selection{Kind: port.ConfigMapKind, Namespace: "default"})
	second := follow(t, c, port.Selection{Kind: port.NodeKind})
	for _, w := range []*told{first, second} {
		broken := w.until("that it is broken", time.Minute, isBroken).(port.APIBroken)
		wantKind(t, "watch", broken.Err, port.Unauthorized)
		if s := broken.Err.Error(); !strings.Contains(s, path+".crt") || !strings.Contains(s, "expired at") {
			t.Errorf("the error %q should name the file and say that it has expired", s)
		}
	}
	<-time.After(6*time.Second - time.Since(began)) // some more tries
	for _, w := range []*told{first, second} {
		if len(w.changes) > 0 {
			t.Errorf("the same was told again: %v", <-w.changes)
		}
	}
	if said := log.with("rejects the credential"); len(said) != 1 || !strings.Contains(said[0], "expired at") || !strings.Contains(said[0], "renew it") {
		t.Errorf("the log says %q, want one line that says that the certificate has expired", said)
	}

	id.Lifetime = time.Hour
	as(t, id) // replaces the files
	renewed := time.Now()
	for _, w := range []*told{first, second} {
		w.until("the first list", 45*time.Second, isReplaced)
	}
	t.Logf("the renewed certificate was used %v after", time.Since(renewed))
	if again := log.with("answers again"); len(again) != 1 {
		t.Errorf("the log says %q, want one line", again)
	}
}

// TestCertificateReload: a client with open watches turns into another user when
// the files do, and only then.
//
//tier:served
func TestCertificateReload(t *testing.T) {
	noLeaks(t)
	id := lab.Identity{User: "test-reload", Groups: []string{"system:masters"}, Files: true}
	path := as(t, id)
	c := client(t, path, zerolog.Nop())
	w := follow(t, c, port.Selection{Kind: port.ConfigMapKind, Namespace: "default"})
	w.until("the first list", time.Minute, isReplaced)
	read := func() error {
		_, err := get(t, c, port.APIKey{Kind: port.ConfigMapKind, Namespace: "default", Name: "kube-root-ca.crt"})
		if port.KindOf(err) == port.NotFound {
			return nil // it was allowed to look
		}
		return err
	}
	check.Fatal(t, read())

	// Half of a new pair: what there is goes on.
	key := check.Value(os.ReadFile(path + ".key"))(t)
	id.Groups = nil
	as(t, id)
	newKey := check.Value(os.ReadFile(path + ".key"))(t)
	check.Fatal(t, os.WriteFile(path+".key", key, 0o600))
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); <-time.After(100 * time.Millisecond) {
		if err := read(); err != nil {
			t.Fatalf("with half of a new pair: %v", err)
		}
	}

	check.Fatal(t, os.WriteFile(path+".key", newKey, 0o600))
	changed := time.Now()
	eventually(t, "the other user is refused", func() error {
		if err := read(); port.KindOf(err) != port.Forbidden {
			return err
		}
		return nil
	})
	for port.KindOf(read()) != port.Forbidden {
		if time.Since(changed) > 20*time.Second {
			t.Fatal("the new certificate is not used")
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("the new certificate was used %v after", time.Since(changed))
	broken := w.until("that the watch may not go on", time.Minute, isBroken).(port.APIBroken)
	if kind := port.KindOf(broken.Err); kind == port.Unavailable { // the old connection's end
		broken = w.until("that the watch may not go on", time.Minute, isBroken).(port.APIBroken)
	}
	wantKind(t, "the watch", broken.Err, port.Forbidden)
}

// TestWrongServer: one that isn't there, and one that isn't who it should be.
//
//tier:served
func TestWrongServer(t *testing.T) {
	noLeaks(t)
	path := as(t, lab.Identity{User: "test-server", Server: "https://localhost.invalid:1"})
	c := client(t, path, zerolog.Nop())
	_, err := get(t, c, port.APIKey{Kind: port.NodeKind, Name: "n"})
	wantKind(t, "get", err, port.Unavailable)

	// Another authority than the server's.
	rest := check.Value(kube.Load(as(t, lab.Identity{User: "test-server"})))(t)
	rest.CAData = rest.CertData
	stranger := check.Value(kube.New(kube.Config{REST: rest, Version: "test"}))(t)
	defer stranger.Close()
	_, err = get(t, stranger, port.APIKey{Kind: port.NodeKind, Name: "n"})
	wantKind(t, "get", err, port.Unavailable)
	if err != nil && !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("the error %q should say that the server's certificate is not trusted", err)
	}
}
