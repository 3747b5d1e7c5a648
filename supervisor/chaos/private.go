package chaos

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// keepPrivate has the registry ask for a credential for the private image of a case, and makes the secret with it.
func (r *runner) keepPrivate() {
	if !r.c.Private() {
		return
	}
	r.world.Registry().Put(plan.PrivateImage, simcri.RegistryImage{
		Credential: &port.ImageAuth{Username: "u", Password: "p"},
	})
	if r.c.Standalone {
		return
	}
	r.put(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: plan.PullSecret},
		Type:       v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			v1.DockerConfigJsonKey: []byte(`{"auths":{"registry.test":{"username":"u","password":"p"}}}`),
		},
	})
}
