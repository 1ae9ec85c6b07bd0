// Module peers checks package webhook against the providers' own libraries, apart from what a user
// of once depends on.
module github.com/oncekit/once/webhook/peers

go 1.26.0

require (
	github.com/google/go-github/v74 v74.0.0
	github.com/oncekit/once v0.0.0
	github.com/slack-go/slack v0.36.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	github.com/stripe/stripe-go/v82 v82.5.1
	github.com/twilio/twilio-go v1.31.0
)

require (
	github.com/golang/mock v1.6.0 // indirect
	github.com/google/go-querystring v1.1.0 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)

replace github.com/oncekit/once => ../../
