package server

import (
	"context"
	"errors"
	"io"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

func (s *Server) mongo(d *config.DatabaseConfig, targets []write.Target) (connect, io.Closer,
	error,
) {
	client, err := connectMongo(d.URL)
	if err != nil {
		return nil, nil, err
	}
	w, err := oncemongo.NewWriter(client.c.Database(d.Database), oncemongo.WriterConfig{
		Targets: targets, Retention: d.Retention, Logger: s.log.With("database", d.Name),
	})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	open := func(ctx context.Context) (write.Writer, error) { return w, w.Open(ctx) }
	return open, client, nil
}
