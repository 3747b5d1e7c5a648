// Command troupe is a Kubernetes node agent on the actor model.
package main

import (
	"os"

	"github.com/troupe-dev/troupe/cmd/troupe/commands"
	"github.com/troupe-dev/troupe/supervisor/host"
)

func main() {
	// First of all: this process may be a child that does one system call.
	host.RunChildIfAsked()
	os.Exit(commands.Execute())
}
