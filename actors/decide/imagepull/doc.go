// Package imagepull decides how pods get their images: whether an image is pulled, when, and with which credentials,
// and which pods may use one that is on the node.
//
// # Images that pods wait for
//
// [Image] decides what is next for one image that pods wait for: it is looked for, pulled with the credentials of those
// who wait, one after the other, or waited for until a backoff is over.
//
// # Records of pulls
//
// Records decide which pods may use an image that is on the node, by the records of how it was pulled (KEP-2535).
// Records are the kubelet's, one file for each image:
//
//	image_manager/pulling/sha256-<of the name>   ImagePullIntent: it is being pulled, or was when an agent was killed
//	image_manager/pulled/sha256-<of the ID>      ImagePulledRecord: with whose credentials it was pulled
//
//	(none) ──pull──► intent ──pulled──► record ──another pulled it, or had the same secret──► record
//	                   └──failed──► see Intent     └──image removed──► (none)
//
// # Credential provider plugins
//
// It decides which credential provider plugins are asked for an image, what they are asked, and for how long and for
// whom their answers count (CredentialProviderConfig, KEP-2133; tokens: KEP-4412).
package imagepull
