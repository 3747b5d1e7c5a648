//go:build linux && !nonode

package commands

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/config"
)

func newWebCommand() *cobra.Command {
	var rootDir, listen string
	c := &cobra.Command{
		Use:   "web",
		Short: "Show a running node in a browser: pods and why they are not ready, timelines, actors, crashes",
		Long: `Show a running node in a browser until Ctrl-C. Prints a URL on the loopback
interface that contains a secret: with this URL, a browser can read what the node
shows, but change nothing. The node itself opens no port. This command reads the
admin socket of the node and must run as root. From another machine:

    ssh -L 8080:127.0.0.1:8080 NODE troupe web --listen 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client := admin.Client{Socket: admin.SocketIn(rootDir)}
			if _, err := client.Tree(c.Context()); err != nil {
				return err
			}
			web, err := admin.ListenWeb(admin.WebConfig{Address: listen, Socket: client.Socket})
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(c.OutOrStdout(), web.URL()); err != nil {
				return errors.Join(err, web.Close())
			}
			return web.Serve(c.Context())
		},
	}
	c.Flags().StringVar(&rootDir, "root-dir", config.DefaultRootDir, "root directory of the node to inspect")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0",
		"loopback address to listen on, host:port; port 0 chooses a free port")
	return c
}
