package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// reviewTimeout bounds the apiserver's reviews for one request.
const reviewTimeout = 15 * time.Second

// admit reports whether a request is allowed, and whose it is, and answers it if not. That answer also closes an
// unauthenticated connection.
func (s *Server) admit(
	w http.ResponseWriter, r *http.Request, verb string, subresources []string,
) (user string, ok bool) {
	g := connIn(r.Context())
	if s.config.Authenticator != nil {
		if user, ok = s.mayPass(w, r, verb, subresources, g); !ok {
			return user, false
		}
	}
	if g != nil {
		s.limiter.markAuthenticated(g)
	}
	return user, true
}

func (s *Server) mayPass(
	w http.ResponseWriter, r *http.Request, verb string, subresources []string, g *limitedConn,
) (user string, ok bool) {
	refuse := func(why string, status int) (string, bool) {
		if g != nil && !g.authenticated.Load() {
			w.Header().Set("Connection", "close")
		}
		http.Error(w, why, status)
		clear(r.Header) // the answer may wait until a client reads it, for as long as it may take
		if r.ProtoMajor == 2 {
			http.NewResponseController(w).Flush() //nolint:errcheck // so that the request counts until the answer is sent
		}
		return "", false
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	who, ok, err := s.config.Authenticator.AuthenticateRequest(r.WithContext(ctx))
	if err != nil || !ok {
		if err != nil {
			s.config.Log.Debug().Str("from", r.RemoteAddr).Str("error", err.Error()).Msg("authentication failed")
		}
		if errors.Is(err, errBusy) {
			w.Header().Set("Retry-After", "1")
			return refuse(errBusy.Error(), http.StatusTooManyRequests)
		}
		return refuse("Unauthorized", http.StatusUnauthorized)
	}
	for _, sub := range subresources {
		decision, _, err := s.config.Authorizer.Authorize(ctx, s.wish(who.User, r, verb, sub))
		if err != nil {
			s.config.Log.Warn().Str("user", who.User.GetName()).Str("error", err.Error()).Msg("authorization check failed")
			return refuse(fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)",
				who.User.GetName(), verb, sub), http.StatusInternalServerError)
		}
		if decision == authorizer.DecisionAllow {
			return who.User.GetName(), true
		}
	}
	return refuse(fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)",
		who.User.GetName(), verb, subresources), http.StatusForbidden)
}

// wish is the access that must be allowed.
func (s *Server) wish(who user.Info, r *http.Request, verb, subresource string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: verb, APIVersion: "v1", Resource: "nodes", Subresource: subresource,
		Name: s.config.Node, ResourceRequest: true, Path: r.URL.Path,
	}
}
