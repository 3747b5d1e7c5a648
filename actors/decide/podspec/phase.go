package podspec

import v1 "k8s.io/api/core/v1"

// Terminal says whether a phase is final.
func Terminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// Finished says whether a pod has ended: it is never started again.
func Finished(pod *v1.Pod) bool { return Terminal(pod.Status.Phase) }
