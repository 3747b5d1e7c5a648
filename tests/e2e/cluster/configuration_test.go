package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// says runs steps once, and gives what the first container said at its end: what
// it wrote to its termination log, or else printed, if it then failed.
func (b *bed) says(t *testing.T, name, steps string, change func(*v1.PodSpec)) (*v1.Pod, string) {
	t.Helper()
	b.create(t, b.pod(name, func(s *v1.PodSpec) {
		work(steps)(s)
		s.RestartPolicy = v1.RestartPolicyNever
		s.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		change(s)
	}))
	p := b.awaitPod(t, name, "has ended", func(p *v1.Pod) error {
		return check.That(p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed, "it has not")
	})
	return p, p.Status.ContainerStatuses[0].State.Terminated.Message
}

func (b *bed) secret(t *testing.T, name string, kind v1.SecretType, data map[string]string) {
	t.Helper()
	check.Value(
		b.admin.CoreV1().Secrets(b.name).Create(t.Context(), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: data}, metav1.CreateOptions{}))(t)
}

func keyOf(configMap string) []v1.EnvVar {
	return []v1.EnvVar{{Name: "SETTING", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: configMap}, Key: "k",
	}}}}
}

// TestConfiguration: containers get what a ConfigMap, a Secret, the services and
// their pod say, say themselves how they ended, and find their names in
// /etc/hosts; their token is one that the apiserver knows.
//
//tier:real
func TestConfiguration(t *testing.T) {
	t.Parallel()
	b := started(t, "configuration")
	b.configMap(t, "settings", map[string]string{"k": "one"})
	b.secret(t, "password", v1.SecretTypeOpaque, map[string]string{"PASSWORD": "hunter2"})
	kubernetes := check.Value(b.admin.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}))(t)

	t.Run("variables", func(t *testing.T) {
		_, got := b.says(t, "variables", "write /dev/termination-log $(SETTING) $(PASSWORD) $(KUBERNETES_SERVICE_HOST) $(NODE)", func(s *v1.PodSpec) {
			c := &s.Containers[0]
			c.Env = append(keyOf("settings"), v1.EnvVar{Name: "NODE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}})
			c.EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "password"}}}}
		})
		check.Equal(t, got, fmt.Sprintf("one hunter2 %s %s\n", kubernetes.Spec.ClusterIP, b.name), "it says")
	})

	t.Run("hosts", func(t *testing.T) {
		p, got := b.says(t, "hosts", "cat /etc/hosts then exit 1", func(s *v1.PodSpec) {
			s.Hostname, s.Subdomain = "me", "sub"
			s.HostAliases = []v1.HostAlias{{IP: "10.9.8.7", Hostnames: []string{"foo.example", "bar.example"}}}
		})
		for _, want := range []string{
			"# Kubernetes-managed hosts file.\n", "127.0.0.1\tlocalhost\n", p.Status.PodIP + "\tme.sub." + b.name + ".svc.", "\tme\n",
			"10.9.8.7\tfoo.example\tbar.example\n",
		} {
			if p.Status.PodIP == "" || !strings.Contains(got, want) {
				t.Errorf("/etc/hosts has no %q:\n%s", want, got)
			}
		}
	})

	t.Run("token", func(t *testing.T) {
		p, got := b.says(t, "token", "cat /tokens/vault then exit 1", func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "tokens", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault", ExpirationSeconds: new(int64(900))}},
			}}}}}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "tokens", MountPath: "/tokens"}}
		})
		review := check.Value(b.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimSpace(got), Audiences: []string{"vault"}},
		}, metav1.CreateOptions{}))(t)
		user := review.Status.User
		if want := "system:serviceaccount:" + b.name + ":default"; !review.Status.Authenticated || user.Username != want ||
			len(user.Extra["authentication.kubernetes.io/pod-uid"]) != 1 || user.Extra["authentication.kubernetes.io/pod-uid"][0] != string(p.UID) {
			t.Errorf("the apiserver knows the token as %+v, want %s of pod %s", review.Status, want, p.UID)
		}
	})

	t.Run("missing", func(t *testing.T) {
		b.create(t, b.pod("missing", func(s *v1.PodSpec) { s.Containers[0].Env = keyOf("later") }))
		b.awaitPod(t, "missing", "says what is missing", func(p *v1.Pod) error {
			if len(p.Status.ContainerStatuses) == 0 {
				return errors.New("no status")
			}
			w := p.Status.ContainerStatuses[0].State.Waiting
			if w == nil || w.Reason != "CreateContainerConfigError" || w.Message != `configmap "later" not found` {
				return fmt.Errorf("%+v", w)
			}
			return nil
		})
		b.await(t, "an event says it", func() error {
			list, err := b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=missing,reason=Failed"})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if list.Items[i].Message == `Error: configmap "later" not found` {
					return nil
				}
			}
			return fmt.Errorf("%d others", len(list.Items))
		})
		b.configMap(t, "later", map[string]string{"k": "x"})
		b.awaitPod(t, "missing", "is ready", ready)
	})

	t.Run("private image", func(t *testing.T) { b.privateImage(t) })
}

const privateImage = "troupe.local/demo/private:v1"

// privateImage runs an image that only user u with password p gets.
func (b *bed) privateImage(t *testing.T) {
	registry := check.Value(shared.Registry())(t)
	repository := check.Value(lab.Repository())(t)
	image := check.Value(lab.ProgramImage(context.WithoutCancel(t.Context()), repository, "web"))(t)
	check.Fatal(t, registry.Push(t.Context(), privateImage, image))
	registry.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if strings.HasPrefix(r.URL.Path, "/v2/demo/private/") && (user != "u" || password != "p") {
				w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	t.Cleanup(func() { registry.Intercept(nil) })
	for name, auth := range map[string]string{"wrong": "dTp4", "right": "dTpw"} {
		b.secret(t, name, v1.SecretTypeDockerConfigJson, map[string]string{v1.DockerConfigJsonKey: `{"auths":{"troupe.local/demo":{"auth":"` + auth + `"}}}`})
	}
	pod := func(name string, secrets ...string) *v1.Pod {
		return b.pod(name, func(s *v1.PodSpec) {
			s.Containers[0].Image, s.Containers[0].ImagePullPolicy = privateImage, v1.PullAlways
			for _, n := range secrets {
				s.ImagePullSecrets = append(s.ImagePullSecrets, v1.LocalObjectReference{Name: n})
			}
		})
	}
	b.create(t, pod("stranger", "none"))
	b.awaitPod(t, "stranger", "may not have the image", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) > 0 {
			if w := p.Status.ContainerStatuses[0].State.Waiting; w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") {
				return nil
			}
		}
		return errors.New("it waits for something else")
	})
	b.create(t, pod("owner", "none", "wrong", "right"))
	b.awaitPod(t, "owner", "is ready", ready)
	b.await(t, "an event names the secret that is not there", func() error {
		list, err := b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=stranger,reason=FailedToRetrieveImagePullSecret"})
		if err == nil && len(list.Items) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	if ready(b.get(t, "stranger")) == nil {
		t.Error("a pod without a secret has the image that another brought")
	}
}
