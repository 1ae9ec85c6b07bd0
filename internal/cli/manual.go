package cli

import (
	"fmt"
	"strings"
)

// The statuses with which the program ends.
const (
	statusDone   = 0
	statusFailed = 1
	// statusUsage: a wrong configuration or command line.
	statusUsage = 2
	// statusNotFound and the following ones are what a server says to an operator's command.
	statusNotFound  = 3
	statusRefused   = 4
	statusAway      = 5
	statusForbidden = 6
	// statusStopped: ended by Ctrl-C, as a shell shows it.
	statusStopped = 130
)

type statusLine struct {
	status int
	what   string
}

// statuses are what the manual says of the statuses. Scripts rely on them: none changes its
// meaning.
func statuses() []statusLine {
	return []statusLine{
		{statusDone, "done"},
		{statusFailed, "failed; of a change of many: not all could be changed"},
		{statusUsage, "the command line or the configuration is wrong, or nobody can be asked"},
		{statusNotFound, "there is no such callback, effect, task or resource"},
		{statusRefused, "its state doesn't allow it; nothing was changed"},
		{statusAway, "the server is not reachable, or can't answer now"},
		{statusForbidden, "the token is missing or wrong, or the server is not meant to be asked " +
			"under this name"},
		{statusStopped, "stopped by Ctrl-C"},
	}
}

// variables are the environment of the commands that ask a server.
func variables() [][2]string {
	return [][2]string{
		{"ONCE_SERVER", "the URL of the operator's listener, in the place of --server"},
		{"ONCE_TOKEN", "admin.token of the server"},
		{"ONCE_TOKEN_FILE", "the file that admin.token stands in"},
		{"ONCE_CA", "the file of the authority that signed the server's certificate"},
		{"NO_COLOR", "if it is set, no colours"},
	}
}

// statusHelp are the statuses as the help shows them.
func statusHelp() string {
	var b strings.Builder
	b.WriteString("Scripts can rely on the status with which the program ends:\n\n")
	for _, s := range statuses() {
		fmt.Fprintf(&b, "  %3d  %s\n", s.status, s.what)
	}
	return b.String()
}

// remoteHelp is said of all commands that ask a server.
const remoteHelp = `
It asks the operator's listener of a server, by default ` + defaultServer + `.
"once help exit-status" lists the statuses with which it ends.`
