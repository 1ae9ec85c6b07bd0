package config

import _ "embed"

//go:embed example.yaml
var example string

//go:embed builtin.yaml
var builtin string

// Example returns the commented file that `once init` writes. It loads as it is.
func Example() []byte { return []byte(example) }

// Builtin returns the file that `once serve` serves when none is named: the robot example, its
// effects printed instead of sent.
func Builtin() []byte { return []byte(builtin) }
