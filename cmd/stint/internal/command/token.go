package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/service/tokens"
)

func (p *program) tokenCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make the tokens with which clients call stint serve",
		Long: `Make, list and remove the tokens with which clients call stint serve. The file of
--tokens has their hashes, a line for each: whoever reads it cannot call. A service that
was started with --tokens of the same file sees a change within a second.

A token stands for a name, and --grants of the service says what that name may do. A name
may have several tokens. To replace one, make another, give it to the clients, and then
remove the old one.`,
		Example: `  stint token new --tokens tokens mailer
  stint token ls --tokens tokens
  stint token rm --tokens tokens 5f3a09c1d2e4`,
		GroupID: groupOperations,
		Args:    subCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&path, "tokens", "", "the `file` of the tokens (required)")
	within := func(run func(args []string) error) func(*cobra.Command, []string) error {
		return func(_ *cobra.Command, args []string) error {
			if path == "" {
				return said(errInput, "--tokens is missing: it names the file of the tokens")
			}
			return run(args)
		}
	}
	cmd.AddCommand(&cobra.Command{
		Use: "new NAME", Short: "Make a token",
		Long: `Make a token for a name, and print it. Nothing else has it: the file is given its
hash. With --json: name, token.`,
		Example: "  (umask 077; stint token new --tokens tokens mailer > mailer.token)",
		Args:    one("one NAME"),
		RunE:    within(func(args []string) error { return p.newToken(path, args[0]) }),
	}, &cobra.Command{
		Use: "ls", Short: "List the tokens",
		Long: `List the IDs of the tokens, their names, and when they were made. With --json, a
token to a line: id, name, made.`,
		Example: "  stint token ls --tokens tokens",
		Args:    noArguments,
		RunE:    within(func([]string) error { return p.listTokens(path) }),
	}, &cobra.Command{
		Use: "rm ID", Short: "Remove a token",
		Long: `Remove the token with an ID (see: stint token ls): services refuse it within a
second. Its line in the file becomes a comment.`,
		Example: "  stint token rm --tokens tokens 5f3a09c1d2e4",
		Args:    one("one ID"),
		RunE: within(func(args []string) error {
			if err := tokens.Remove(path, args[0]); err != nil {
				return said(errInput, "%v (see: stint token ls%s)", err,
					" --tokens "+display.Word(path))
			}
			return nil
		}),
	})
	return cmd
}

func (p *program) newToken(path, name string) error {
	token, err := tokens.New(path, name)
	switch {
	case err != nil:
		return said(errInput, "%v", err)
	case p.json:
		return p.printJSON(map[string]string{"name": name, "token": token})
	}
	return p.printf("%s\n", token)
}

func (p *program) listTokens(path string) error {
	entries, err := tokens.List(path)
	if err != nil {
		return said(errInput, "%v", err)
	}
	if p.json {
		return printLines(p, entries, func(entry *tokens.Entry) any {
			return map[string]any{"id": entry.ID, "name": entry.Name, "made": entry.Made}
		})
	}
	rows := [][]string{{"ID", "NAME", "MADE"}}
	for _, entry := range entries {
		rows = append(rows, []string{entry.ID, entry.Name, entry.Made.UTC().Format(time.DateTime)})
	}
	return p.printTable(rows)
}
