// Package scenarios holds what an implementation of idempotency keys for HTTP APIs has to do, as
// files that any language can read. README.md beside it documents them.
package scenarios

import (
	"embed"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// Files returns the scenarios, and the settings that they need of a target in gateway.yaml.
func Files() fs.FS { return files }
