package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/version"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of troupe",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), version.Line())
			return err
		},
	}
}
