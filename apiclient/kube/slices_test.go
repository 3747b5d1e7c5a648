package kube

import (
	"net/http"
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestSlices: only those of the node are listed, and deleted.
func TestSlices(t *testing.T) {
	var asked []string
	config := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("fieldSelector"))
		switch {
		case r.Method == http.MethodGet:
			list := &resourcev1.ResourceSliceList{
				TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSliceList"},
			}
			for _, d := range []string{"gpu", "net", "gpu"} {
				list.Items = append(list.Items, resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: d}})
			}
			give(w, http.StatusOK, list)
		case len(asked) == 2:
			give(w, http.StatusOK, &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
			})
		default:
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
		}
	})
	s := newClient(t, Config{REST: config}).Slices("n1")
	drivers, err := result(t, func(done func([]string, error)) { s.SliceDrivers(t.Context(), done) })
	if err != nil || !slices.Equal(drivers, []string{"gpu", "net", "gpu"}) {
		t.Errorf("%v, %v", drivers, err)
	}
	remove := func() error {
		_, err := result(t, func(done func(struct{}, error)) {
			s.DeleteSlices(t.Context(), "gpu", func(err error) { done(struct{}{}, err) })
		})
		return err
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if err := remove(); port.KindOf(err) != port.Forbidden {
		t.Errorf("refused: %v", err)
	}
	const path = "/apis/resource.k8s.io/v1/resourceslices "
	want := []string{"GET " + path + "spec.nodeName=n1", "DELETE " + path + "spec.driver=gpu,spec.nodeName=n1"}
	if !slices.Equal(asked[:2], want) {
		t.Errorf("it was asked %q, want %q", asked, want)
	}
}
