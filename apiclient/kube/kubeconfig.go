package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Load reads a kubeconfig (--kubeconfig): its current context has the server and the user. Files
// that it names are read as well, so that a missing or broken one is an error at once, of one
// line, that names the file. A token or a certificate given as a file is read again when the file
// changes; a plugin (exec) is run when its credential is needed.
func Load(path string) (*rest.Config, error) {
	fail := func(err error) (*rest.Config, error) {
		if missing := (*fs.PathError)(nil); errors.As(err, &missing) && missing.Path == path {
			err = missing.Err
		}
		return nil, fmt.Errorf("kubeconfig %s: %s", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fail(err)
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil { // relative to the file's own directory
		return fail(err)
	}
	// Without this a missing context would silently mean localhost.
	if context, ok := file.Contexts[file.CurrentContext]; !ok {
		return fail(fmt.Errorf("current-context %q is not among its contexts", file.CurrentContext))
	} else if _, ok := file.Clusters[context.Cluster]; !ok {
		return fail(fmt.Errorf("context %q names cluster %q, which does not exist", file.CurrentContext, context.Cluster))
	} else if _, ok := file.AuthInfos[context.AuthInfo]; !ok && context.AuthInfo != "" {
		return fail(fmt.Errorf("context %q names user %q, which does not exist", file.CurrentContext, context.AuthInfo))
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, "", &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return fail(err)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return fail(err)
	}
	return config, nil
}

// CertificateFile is the absolute path of the client certificate that the current context of a kubeconfig names; empty
// if it names none, or the kubeconfig can't be read. The file need not exist.
func CertificateFile(path string) string {
	file, err := clientcmd.LoadFromFile(path)
	if err != nil || clientcmd.ResolveLocalPaths(file) != nil {
		return ""
	}
	context := file.Contexts[file.CurrentContext]
	if context == nil || file.AuthInfos[context.AuthInfo] == nil {
		return ""
	}
	return file.AuthInfos[context.AuthInfo].ClientCertificate
}

// Derive writes a kubeconfig at path: for the server of another one's current context, with the
// client certificate and key of certFile.
func Derive(from, path, certFile string) error {
	file, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", from, err)
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", from, err)
	}
	context, ok := file.Contexts[file.CurrentContext]
	if !ok || file.Clusters[context.Cluster] == nil {
		return fmt.Errorf("kubeconfig %s: current-context %q names no cluster", from, file.CurrentContext)
	}
	const name = "default"
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: file.Clusters[context.Cluster]},
		AuthInfos:      map[string]*api.AuthInfo{name: {ClientCertificate: certFile, ClientKey: certFile}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}
