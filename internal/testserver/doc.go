// Package testserver starts private servers for tests: a real MQTT broker ([Mosquitto]), Redis
// servers alone and in groups ([Redis], [RedisSentinel], [RedisCluster]), PostgreSQL with a
// database for each test ([Postgres]), a server that speaks MongoDB's protocol ([Mongo]), a TCP
// proxy that cuts and holds connections ([NewProxy]), and a recording HTTP server with scripted
// answers ([NewHTTPSink]). Each listens on a free loopback port and ends with its test. Beside them
// is what tests of running programs share: to wait ([Until]), to read what is written ([Text]).
//
// A server that is missing fails the test and names the package to install; nothing is skipped.
// Everything here is safe for concurrent use.
package testserver
