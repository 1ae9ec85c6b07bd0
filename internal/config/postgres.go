package config

import (
	"net/url"
	"strings"
)

// IsPostgreSQL reports whether a URL is one of PostgreSQL.
func IsPostgreSQL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// SplitSchema takes the name of the schema of once's tables out of a URL of PostgreSQL: the option
// schema=NAME, which no driver knows. Empty: it names none. What is left is the URL for the driver.
func SplitSchema(text string) (driver, schema string) {
	address, options, found := strings.Cut(text, "?")
	if !found {
		return text, ""
	}
	var left []string
	for option := range strings.SplitSeq(options, "&") {
		name, value, _ := strings.Cut(option, "=")
		if name != "schema" {
			left = append(left, option)
			continue
		}
		schema = value
		if plain, err := url.QueryUnescape(value); err == nil {
			schema = plain
		}
	}
	if len(left) > 0 {
		address += "?" + strings.Join(left, "&")
	}
	return address, schema
}
