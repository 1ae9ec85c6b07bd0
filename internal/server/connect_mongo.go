package server

import (
	"context"
	"errors"
	"io"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncemongo"
	"github.com/oncekit/once/write"
)

func (s *Server) mongo(d *config.DatabaseConfig, targets []write.Target) (connect, io.Closer,
	error,
) {
	o, err := mongoOptions(d.URL)
	if err != nil {
		return nil, nil, err
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, nil, hideMongo(err, d.URL)
	}
	w, err := oncemongo.NewWriter(client.Database(d.Database), oncemongo.WriterConfig{
		Targets: targets, Retention: d.Retention, Logger: s.log.With("database", d.Name),
	})
	if err != nil {
		return nil, nil, errors.Join(err, mongoClient{client}.Close())
	}
	open := func(ctx context.Context) (write.Writer, error) { return w, w.Open(ctx) }
	return open, mongoClient{client}, nil
}
