package serve

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// reviewTimeout bounds what is asked of the apiserver for one request.
const reviewTimeout = 15 * time.Second

// admit says whether a request may go on, and answers it if not.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, subresources []string) bool {
	if s.config.Authenticator == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	who, ok, err := s.config.Authenticator.AuthenticateRequest(r.WithContext(ctx))
	if err != nil || !ok {
		if err != nil {
			s.config.Log.Debug().Str("from", r.RemoteAddr).Str("error", err.Error()).Msg("not known who asks")
		}
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return false
	}
	for _, sub := range subresources {
		decision, _, err := s.config.Authorizer.Authorize(ctx, s.wish(who.User, r, sub))
		if err != nil {
			s.config.Log.Warn().Str("user", who.User.GetName()).Str("error", err.Error()).Msg("not known what a user may")
			http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)",
				who.User.GetName(), verb(r.Method), sub), http.StatusInternalServerError)
			return false
		}
		if decision == authorizer.DecisionAllow {
			return true
		}
	}
	http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
		who.User.GetName(), verb(r.Method), subresources), http.StatusForbidden)
	return false
}

// wish is what has to be allowed.
func (s *Server) wish(who user.Info, r *http.Request, subresource string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: verb(r.Method), APIVersion: "v1", Resource: "nodes", Subresource: subresource,
		Name: s.config.Node, ResourceRequest: true, Path: r.URL.Path,
	}
}
