package kube

import (
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Namespace is that of a kubeconfig's current context, "default" if it has none.
func Namespace(path string) (string, error) {
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if c := file.Contexts[file.CurrentContext]; c != nil && c.Namespace != "" {
		return c.Namespace, nil
	}
	return v1.NamespaceDefault, nil
}

// ownNamespace is the file with a pod's own namespace (projected service account volume).
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InCluster is the configuration with which a pod reaches its cluster's apiserver as its service
// account, and the pod's namespace. The token is read again when its file changes.
func InCluster() (*rest.Config, string, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, "",
			errors.New("this process does not run in a pod of a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT " +
				"are not set")
	}
	if err != nil {
		return nil, "", fmt.Errorf("the pod's service account: %w", err)
	}
	namespace, err := os.ReadFile(ownNamespace)
	if err != nil {
		return nil, "", fmt.Errorf("the pod's namespace: %w", err)
	}
	return config, strings.TrimSpace(string(namespace)), nil
}
