package observed

// EventKind is what happened to a container or a sandbox (CRI ContainerEventType).
type EventKind uint8

const (
	ContainerCreatedEvent EventKind = iota + 1
	ContainerStartedEvent
	ContainerStoppedEvent
	ContainerDeletedEvent
)

func (k EventKind) String() string {
	switch k {
	case ContainerCreatedEvent:
		return "created"
	case ContainerStartedEvent:
		return "started"
	case ContainerStoppedEvent:
		return "stopped"
	case ContainerDeletedEvent:
		return "deleted"
	default:
		return "invalid"
	}
}
