package podspec

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// KubeletHash is the kubelet's hash of a container's name and image since v1.31 (HashContainer in
// pkg/kubelet/container), in hexadecimal digits, 8 at most. An older kubelet hashes more, and restarts the container.
func KubeletHash(c *v1.Container) string {
	text, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image}) // strings can always be written
	h := fnv.New32a()
	h.Write([]byte(dump.ForHash(text)))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
