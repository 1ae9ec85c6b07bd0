package server

import (
	"errors"
	"io"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/write"
)

func (s *Server) sqlite(*config.DatabaseConfig, []write.Target) (connect, io.Closer, error) {
	return nil, nil, errors.New("this program can't write to SQLite yet")
}
