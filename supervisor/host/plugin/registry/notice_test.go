package registry

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registry "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// fails is a plugin that answers each notice with an error.
type fails struct {
	registry.RegistrationClient
	err error
}

// NotifyRegistrationStatus implements registry.RegistrationClient.
func (f fails) NotifyRegistrationStatus(
	context.Context, *registry.RegistrationStatus, ...grpc.CallOption,
) (*registry.RegistrationStatusResponse, error) {
	return nil, f.err
}

// TestNotice: a plugin that does not have the call is not told again.
func TestNotice(t *testing.T) {
	for code, again := range map[codes.Code]bool{
		codes.OK: false, codes.Unimplemented: false, codes.Internal: true, codes.Unavailable: true,
	} {
		err := notice(t.Context(), fails{err: status.Error(code, "no")}, nil)
		if errors.Is(err, errUnnoticed) != again || !again && err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}
