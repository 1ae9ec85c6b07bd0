package oncepg

import "io/fs"

// WithFiles replaces the migrations of a configuration.
func (c MigrateConfig) WithFiles(files fs.FS) MigrateConfig {
	c.files = files
	return c
}
