package arch

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// vocabulary is the one package that may do what the rules below look for.
var vocabulary = ours("actors/decide/podspec")

// coreAPI is where the types of pods are declared.
const coreAPI = "k8s.io/api/core/v1"

// staticAnnotations are the annotations by which static pods and mirrors are told.
var staticAnnotations = []string{
	"kubernetes.io/config.source", "kubernetes.io/config.hash", "kubernetes.io/config.seen", "kubernetes.io/config.mirror",
}

// text is the value of an expression that is a constant string, and the name of its type if that is
// one of the core API.
func (s *source) text(e ast.Expr) (value, ofType string) {
	t := s.info.Types[e]
	if t.Value == nil || t.Value.Kind() != constant.String {
		return "", ""
	}
	if named, is := t.Type.(*types.Named); is && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == coreAPI {
		ofType = named.Obj().Name()
	}
	return constant.StringVal(t.Value), ofType
}

// compares says whether an expression compares with this constant of the core API.
func (s *source) compares(e ast.Expr, op token.Token, value, ofType string) bool {
	b, is := ast.Unparen(e).(*ast.BinaryExpr)
	if !is || b.Op != op {
		return false
	}
	return slices.ContainsFunc([]ast.Expr{b.X, b.Y}, func(x ast.Expr) bool {
		v, of := s.text(x)
		return v == value && of == ofType
	})
}

// sidecarPredicates are comparisons of a container's restart policy with Always.
func sidecarPredicates(s *source) (found []string) {
	s.inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, op := range [...]token.Token{token.EQL, token.NEQ} {
				if s.compares(n, op, "Always", "ContainerRestartPolicy") {
					found = append(found, s.position(n))
				}
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				if v, of := s.text(e); v == "Always" && of == "ContainerRestartPolicy" {
					found = append(found, s.position(e))
				}
			}
		}
	})
	return found
}

// terminalPredicates are expressions that ask for Succeeded or Failed, or for neither.
func terminalPredicates(s *source) (found []string) {
	s.inspect(func(n ast.Node) {
		b, is := n.(*ast.BinaryExpr)
		if !is {
			return
		}
		op := map[token.Token]token.Token{token.LOR: token.EQL, token.LAND: token.NEQ}[b.Op]
		for _, order := range [][2]ast.Expr{{b.X, b.Y}, {b.Y, b.X}} {
			if s.compares(order[0], op, "Succeeded", "PodPhase") && s.compares(order[1], op, "Failed", "PodPhase") {
				found = append(found, s.position(b))
			}
		}
	})
	return found
}

// annotationNames are the annotations of static pods, written out or taken from the API.
func annotationNames(s *source) (found []string) {
	s.inspect(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.BasicLit:
			if v, _ := s.text(n); slices.Contains(staticAnnotations, v) {
				found = append(found, s.position(n))
			}
		case *ast.Ident:
			c, is := s.info.Uses[n].(*types.Const)
			if is && c.Pkg() != nil && c.Pkg().Path() == coreAPI && c.Name() == "MirrorPodAnnotationKey" {
				found = append(found, s.position(n))
			}
		}
	})
	return found
}

func (s *source) inspect(visit func(ast.Node)) {
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if n != nil {
				visit(n)
			}
			return true
		})
	}
}

func TestPodVocabularyInOnePackage(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath == vocabulary {
			continue
		}
		s := load(t, p)
		for _, at := range sidecarPredicates(s) {
			t.Errorf("%s compares a container's restart policy with Always: podspec.IsSidecar, or a Kind, says what a sidecar is", at)
		}
		for _, at := range terminalPredicates(s) {
			t.Errorf("%s asks whether a phase is terminal: podspec.Terminal and podspec.Finished say so", at)
		}
		for _, at := range annotationNames(s) {
			t.Errorf("%s names an annotation of static pods: podspec has them, and says what a static pod and a mirror are", at)
		}
	}
}

func TestPodVocabularyRules(t *testing.T) {
	s := checkText(t, `package sample
import v1 "k8s.io/api/core/v1"
func f(c *v1.Container, p *v1.Pod) bool {
	if *c.RestartPolicy == v1.ContainerRestartPolicyAlways || "Always" != *c.RestartPolicy {
		return p.Spec.RestartPolicy == v1.RestartPolicyAlways
	}
	switch *c.RestartPolicy {
	case v1.ContainerRestartPolicyAlways:
	}
	if p.Status.Phase == v1.PodFailed || (v1.PodSucceeded == p.Status.Phase) || p.Status.Phase == v1.PodRunning {
		return p.Status.Phase != "Succeeded" && p.Status.Phase != v1.PodFailed
	}
	const source = "kubernetes.io/config.source"
	return p.Annotations[source]+p.Annotations["kubernetes.io/config.hash"]+p.Annotations[v1.MirrorPodAnnotationKey] == "config.source"
}`)
	for what, c := range map[string]struct {
		found []string
		want  int
	}{
		"sidecar":     {sidecarPredicates(s), 3},
		"terminal":    {terminalPredicates(s), 2},
		"annotations": {annotationNames(s), 3},
	} {
		check.Equal(t, len(c.found), c.want, "%s: %q", what, c.found)
	}
}
