package translate

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// verifyNonRoot checks runAsNonRoot against the user that the container would run as. Users know
// the messages from the kubelet.
func verifyNonRoot(pod *v1.Pod, c *v1.Container, image observed.Image) error {
	user, nonRoot := effectiveUser(pod, c)
	if !nonRoot {
		return nil
	}
	where := fmt.Sprintf("(pod: %q, container: %s)", podDescription(pod), c.Name)
	switch {
	case user != nil && *user == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
	case user != nil:
		return nil
	case image.UID == nil && image.Username != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s",
			image.Username, where)
	case image.UID == nil || *image.UID == 0: // an image without a user runs as root
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	case *image.UID < 0 || *image.UID > math.MaxInt32:
		return fmt.Errorf("container has runAsNonRoot and image has an invalid user id (%d): must be between 1 and %d %s",
			*image.UID, math.MaxInt32, where)
	}
	return nil
}

// effectiveUser gives runAsUser and runAsNonRoot, the container's before the pod's.
func effectiveUser(pod *v1.Pod, c *v1.Container) (user *int64, nonRoot bool) {
	if s := pod.Spec.SecurityContext; s != nil {
		user, nonRoot = s.RunAsUser, isTrue(s.RunAsNonRoot)
	}
	if s := c.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			user = s.RunAsUser
		}
		if s.RunAsNonRoot != nil {
			nonRoot = *s.RunAsNonRoot
		}
	}
	return user, nonRoot
}
