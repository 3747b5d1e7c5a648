//go:build linux && !nonode

package commands

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/klogsink"
	"github.com/troupe-dev/troupe/supervisor/node"
)

func newNodeCommand() *cobra.Command {
	flags := config.NewFlags()
	var panicPod string
	var version kubernetesVersion
	var check nodeCheck
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run the node agent, with the kubelet's flags and configuration file",
		Long: `Run the node agent. A program with the name kubelet, such as a symlink to
troupe, is this command: put it in the place of the kubelet. Then no systemd
unit has to change, and programs that look for a process named kubelet find one.
It takes the kubelet's flags and its KubeletConfiguration file. Without a
kubeconfig it runs static pods only: manifests from --pod-manifest-path and
--manifest-url.

SIGTERM stops the agent and leaves the pods running. A second one ends it at
once, with exit code 1.

With --check it does not run: it reads configuration, drop-ins and flags, looks
at the machine, and prints what would be refused, warned of and without effect.
It asks the container runtime for its version and status only, and writes, binds
and creates nothing. Exit codes of --check:

  0  the agent would start, maybe with warnings
  1  it would not start
  2  with --strict: it would start with warnings`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version != "" {
				return version.print(cmd.OutOrStdout())
			}
			if err := check.validate(); err != nil {
				return err
			}
			if check.on {
				return check.run(cmd.Context(), cmd.OutOrStdout(), flags)
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			c, err := config.Load(flags, os.DirFS("/"), filepath.Clean(dir))
			if err != nil {
				return err
			}
			log := newLog(cmd.ErrOrStderr(), c)
			ctx, stop := untilSignal(cmd.Context(), func() {
				log.Warn().Msg("second signal: the agent exits at once; its pods keep running, and pod starts in " +
					"progress are interrupted")
				os.Exit(exitFailed) // nothing is lost that a kill -9 would not lose
			})
			defer stop()
			return node.Run(ctx, node.Options{Config: c, Log: log, PanicPod: panicPod, Flags: shownFlags(cmd.Flags())})
		},
	}
	flags.AddTo(cmd.Flags())
	check.addTo(cmd)
	cmd.Flags().Var(&version, "version", "print the Kubernetes version and exit; =raw adds build information")
	cmd.Flags().Lookup("version").NoOptDefVal = "true"
	cmd.Flags().StringVar(&panicPod, "chaos-panic-pod", "",
		"make the actor of this pod (namespace/name) panic on every message")
	if err := cmd.Flags().MarkHidden("chaos-panic-pod"); err != nil {
		panic(err)
	}
	return cmd
}

// newLog makes the one stream: text or JSON, as the configuration says.
func newLog(w io.Writer, c config.Config) zerolog.Logger {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.DurationFieldUnit = time.Second
	if c.LogFormat() != "json" {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "2006-01-02T15:04:05.000Z07:00", NoColor: !isTerminal(w)}
	}
	klogsink.SetVerbosity(c.Verbosity())
	return zerolog.New(w).With().Timestamp().Logger()
}

// shownFlags are the flags with their values, without secrets.
func shownFlags(fs *pflag.FlagSet) map[string]string {
	all := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) { all[f.Name] = config.ShownFlag(f.Name, f.Value.String()) })
	return all
}
