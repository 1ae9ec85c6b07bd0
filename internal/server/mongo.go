package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncemongo"
)

const (
	// mongoOpenLimit bounds the first calls: a server that is away is told at the start.
	mongoOpenLimit = 30 * time.Second
	// mongoCloseLimit bounds the end of the connections, for calls that still run on them.
	mongoCloseLimit = 5 * time.Second
)

// mongoOptions reads the URL of a MongoDB. It asks nobody, but for mongodb+srv, whose hosts and
// options a name server has.
func mongoOptions(url string) (*options.ClientOptions, error) {
	o := oncemongo.Options(url)
	if err := o.Validate(); err != nil {
		return nil, hideMongo(err, url)
	}
	return o, nil
}

// checkMongo reads the URL of a MongoDB without asking anybody.
func checkMongo(url string) error {
	if strings.HasPrefix(url, "mongodb+srv://") {
		return nil // it is read at the start
	}
	_, err := mongoOptions(url)
	return err
}

// hideMongo keeps an address with its password out of an error.
func hideMongo(err error, url string) error {
	text := strings.TrimPrefix(err.Error(), "error parsing uri: ")
	_, rest, _ := strings.Cut(url, "://")
	login := rest[:max(strings.LastIndex(rest, "@"), 0)]
	_, password, _ := strings.Cut(login, ":")
	if strings.Contains(text, "://") || strings.Contains(text, "@") ||
		password != "" && strings.Contains(text, password) {
		text = "it can't be read"
	}
	return errors.New(text)
}

// openMongoRecords opens a MongoDB that keeps the gateway's records.
func (s *Server) openMongoRecords(ctx context.Context, url string, maxOutcome int) error {
	client, err := connectMongo(url)
	if err != nil {
		return fmt.Errorf("the MongoDB of the records: %w", err)
	}
	s.closers = append(s.closers, client)
	records, err := oncemongo.NewRecords(client.c.Database(config.MongoDatabase(url)),
		oncemongo.RecordsConfig{MaxOutcome: maxOutcome})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mongoOpenLimit)
	defer cancel()
	if err := records.Open(ctx); err != nil {
		return err
	}
	s.recordsReady = cached(records.Ping, recordsPingLimit)
	s.records, s.recordsSweep = records, records
	return nil
}

// connectMongo makes a client for a URL that the file names. It connects behind.
func connectMongo(url string) (mongoClient, error) {
	o, err := mongoOptions(url)
	if err != nil {
		return mongoClient{}, err
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return mongoClient{}, hideMongo(err, url)
	}
	return mongoClient{client}, nil
}

// mongoClient ends a client's connections.
type mongoClient struct{ c *mongo.Client }

// Close implements closer.
func (m mongoClient) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), mongoCloseLimit)
	defer cancel()
	return m.c.Disconnect(ctx)
}
