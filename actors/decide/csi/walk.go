package csi

import "fmt"

// Walk is how far the change of the group of all files of a volume is.
type Walk struct {
	// Reports is how often that was said. Files is how many files have the group; it stays the same if that hangs.
	Reports int
	Files   int64
}

// Of says so in words for people.
func (w Walk) Of(group *int64) string {
	return fmt.Sprintf("its files are being given to the group of the pod (fsGroup %d), %d of them so far",
		*group, w.Files)
}

// OrWalks is added to what does not answer, while it is not known which of both it is.
func OrWalks(group *int64) string {
	return fmt.Sprintf(", or its files are being given to the group of the pod (fsGroup %d), which takes the longer "+
		"the more there are", *group)
}
