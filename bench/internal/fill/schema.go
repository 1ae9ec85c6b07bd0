package fill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/oncesqlite"
)

// version changes with what this package writes.
const version = "2"

// Stamp names the layout of the stores that this package fills now. A store that was filled under
// another stamp is of no use.
func Stamp(ctx context.Context) (stamp string, err error) {
	dir, err := os.MkdirTemp("", "once-stamp-")
	if err != nil {
		return "", fmt.Errorf("read schema: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "once.db")
	s, err := oncesqlite.Open(ctx, oncesqlite.Config{Path: path})
	if err != nil {
		return "", err
	}
	if err := s.Close(); err != nil {
		return "", err
	}
	db, err := sqlite3.Open(path)
	if err != nil {
		return "", fmt.Errorf("read schema: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	all, err := texts(db, "SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY name")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(version + "\n" + strings.Join(all, "\n")))
	return hex.EncodeToString(sum[:]), nil
}
