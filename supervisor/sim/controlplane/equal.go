package controlplane

import apiequality "k8s.io/apimachinery/pkg/api/equality"

func equal[T any](a, b T) bool { return apiequality.Semantic.DeepEqual(a, b) }
