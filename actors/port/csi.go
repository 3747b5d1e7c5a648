package port

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/csi"
)

// CSI are the CSI drivers of this machine (CSI spec v1), and what they have mounted, in the kubelet's layout of
// directories. The calling convention is Runtime's, and all errors are *Error; see CSIOutcome. A driver that does not
// answer, hangs or says what no driver may say is an error of its own calls alone.
type CSI interface {
	// Drivers calls event for each driver that registers in the plugin registry (<root>/plugins_registry), and for each
	// whose registration socket is gone. Drivers that were there before are told again. It ends with ctx.
	Drivers(ctx context.Context, event func(CSIDriver), done func(error))
	// NodeInfo asks a driver how this node is to be shown (NodeGetInfo).
	NodeInfo(ctx context.Context, d CSIDriver, done func(csi.Info, error))
	// FoundVolumes lists what an agent has staged or published, or has begun to, as its notes on disk (vol_data.json) and
	// the mount table say, and names each place where notes can't be read.
	FoundVolumes(ctx context.Context, done func(found []csi.Found, lost []csi.Lost, unreadable []string, err error))
	// StageVolume makes the staging directory of a volume, notes what it is of, and has the driver stage it
	// (NodeStageVolume), if it does such things. Idempotent.
	StageVolume(ctx context.Context, d CSIDriver, r csi.Stage, done func(error))
	// PublishVolume does the same for a pod (NodePublishVolume), and returns the path, of a directory or a device.
	// Idempotent.
	PublishVolume(ctx context.Context, d CSIDriver, r csi.Publish, walked Walked, done func(path string, err error))
	// UnpublishVolume undoes it (NodeUnpublishVolume), and then removes the directory. Before that it unmounts what the
	// pod's containers had mounted of its volumes (subPath). Idempotent.
	UnpublishVolume(ctx context.Context, d CSIDriver, r csi.Found, done func(error))
	// ExpandVolume has the driver expand a volume on this node that its controller has expanded (NodeExpandVolume), where
	// it is published for a pod. It fails with Unsupported if the driver does no such thing, and with Invalid if it says
	// that it never can. Idempotent.
	ExpandVolume(ctx context.Context, d CSIDriver, r csi.Expand, done func(error))
	// VolumeStats asks a driver for the figures of a publication (NodeGetVolumeStats), and keeps them for those who read
	// the use of volumes, until the next answer or until it is unpublished. It fails with Unsupported if the driver does
	// no such thing: then the volume is measured by its file system.
	VolumeStats(ctx context.Context, d CSIDriver, r csi.Measure, done func(csi.Usage, error))
	// UnstageVolume undoes StageVolume (NodeUnstageVolume), and then removes the directory. Idempotent.
	UnstageVolume(ctx context.Context, d CSIDriver, r csi.Found, done func(error))
}

// CSIDriver is a driver that has registered.
type CSIDriver struct {
	Name string
	// Endpoint is the path of its socket.
	Endpoint string
	// Gone: its registration socket is gone.
	Gone bool
}

// CSIOutcome is what a call of a driver may have done that ended with err. Without an answer, and while an earlier call
// is under way, that is not known.
func CSIOutcome(err error) csi.Outcome {
	if err == nil {
		return csi.Worked
	}
	switch KindOf(err) {
	case Deadline, Canceled, Unavailable, Panic, NameReserved, TooManyRequests:
		return csi.Unsure
	default:
		return csi.Refused
	}
}
