package cluster

import (
	"errors"
	"testing"
	"time"

	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/pullrecords"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPullRecordFiles: the kubelet's own code reads what troupe writes, and the other way round.
//
//tier:real
func TestPullRecordFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	store := pullrecords.New(root)
	offer := imagepull.Offer{
		Credential: imagepull.Credential{Username: "u", Password: "p"},
		Source:     imagepull.Source{Owner: imagepull.OfSecret, UID: "x", Namespace: "shop", Name: "pull"},
	}
	record, _ := imagepull.AddPull(nil, "sha256:1", "reg.io/app:1", []imagepull.Offer{offer}, time.Now())
	wait := make(chan error, 2)
	done := func(err error) { wait <- err }
	store.SavePulled(t.Context(), imagepull.RecordFileName("sha256:1"), imagepull.EncodeRecord(record), "", done)
	store.SaveIntent(t.Context(), imagepull.RecordFileName("reg.io/b:1"), imagepull.EncodeIntent("reg.io/b:1"), done)
	for range 2 {
		check.Fatal(t, <-wait)
	}
	files := check.Value(pullmanager.NewFSPullRecordsAccessor(klog.Background(), root))(t)
	policy := check.Value(pullmanager.NewImagePullCredentialVerificationPolicy(kubeletconfig.NeverVerifyPreloadedImages, nil))(t)
	if there, err := files.ImagePullIntentExists("reg.io/b:1"); !there || err != nil {
		t.Errorf("intent: %v, %v", there, err)
	}
	got, there, err := files.GetImagePulledRecord("sha256:1")
	if !there || err != nil || len(got.CredentialMapping["reg.io/app"].KubernetesSecrets) != 1 {
		t.Fatalf("record: %+v, %v, %v", got, there, err)
	}
	if s := got.CredentialMapping["reg.io/app"].KubernetesSecrets[0]; s.UID != "x" || s.CredentialHash != offer.Hash() {
		t.Errorf("secret: %+v", s)
	}
	if !policy.RequireCredentialVerificationForImage("reg.io/app:1", there) {
		t.Error("it is not verified")
	}
	got.CredentialMapping["reg.io/c"] = kubeletconfig.ImagePullCredentials{NodePodsAccessible: true}
	check.Fatal(t, files.WriteImagePulledRecord(klog.Background(), got))
	all := readRecords(t, store)
	if of := all["sha256:1"].CredentialMapping; len(of) != 2 || !of["reg.io/c"].NodePodsAccessible {
		t.Errorf("what the kubelet wrote: %+v", of)
	}
}

// readRecords are the records of a node, by image ID.
func readRecords(t *testing.T, store *pullrecords.Store) map[string]*imagepull.Record {
	t.Helper()
	all, wait := map[string]*imagepull.Record{}, make(chan error, 1)
	store.Load(t.Context(), func(files port.PullFiles, err error) {
		for _, f := range files.Records {
			r, parseErr := imagepull.ParseRecord(f.Name, f.Data)
			if err = errors.Join(err, f.Err, parseErr); err == nil {
				all[r.ImageRef] = r
			}
		}
		wait <- err
	})
	check.Fatal(t, <-wait)
	return all
}
