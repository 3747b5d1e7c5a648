package apiserver

import (
	"regexp"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/growth"
)

// slow are shapes of which the apiserver compares each with each: as many as fit into a pod take it longer than a request may.
var slow = regexp.MustCompile(`\.Items$|\.OwnerReferences$|\.Sources$|^EphemeralContainerCommon\.Volume`)

// TestLongPodsAreValid: an apiserver takes the pods of tests/growth with as many of each as [growth.Shape.Most] says, or an
// eighth of the [slow] ones. So what the growth of the agent's work is measured with is what the author of a pod can make.
//
//tier:all size: pods of more than a megabyte
func TestLongPodsAreValid(t *testing.T) {
	config := rest.CopyConfig(plane(t).AdminConfig())
	config.WarningHandler = rest.NoWarnings{}
	admin := check.Value(kubernetes.NewForConfig(config))(t).CoreV1()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := admin.ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	pods, dry := admin.Pods("default"), []string{metav1.DryRunAll}
	for _, s := range growth.Shapes() {
		t.Run(s.Name, func(t *testing.T) {
			p, n := growth.Base("long"), s.Most
			if slow.MatchString(s.Name) {
				n /= 8
			}
			s.Make(p, n)
			later := p.Spec.EphemeralContainers
			if len(later) == 0 {
				check.Value(pods.Create(t.Context(), p, metav1.CreateOptions{DryRun: dry}))(t)
				return
			}
			p.Spec.EphemeralContainers = nil // they come to a pod that is there
			p = check.Value(pods.Create(t.Context(), p, metav1.CreateOptions{}))(t)
			p.Spec.EphemeralContainers = later
			check.Value(pods.UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{DryRun: dry}))(t)
			check.Fatal(t, pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		})
	}
}
