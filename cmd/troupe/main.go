// Command troupe is a Kubernetes node agent on the actor model.
package main

import (
	"os"

	"github.com/troupe-dev/troupe/cmd/troupe/commands"
)

func main() { os.Exit(commands.Execute()) }
