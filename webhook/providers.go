package webhook

import (
	"errors"
	"strings"
	"time"
)

// SignedConfig configures the verifiers of providers whose way to sign is fixed.
type SignedConfig struct {
	// Secrets of which any may have signed, as the provider shows them.
	Secrets []string
	// Tolerance of the time stamp, in both directions, for providers that have one. Default
	// DefaultTolerance.
	Tolerance time.Duration
}

// NewStripe returns a verifier of Stripe's signatures: Stripe-Signature has a time stamp and
// signatures over it and the body (https://docs.stripe.com/webhooks, "Verify webhook signatures
// manually"). A secret is that of the endpoint and begins with whsec_.
func NewStripe(cfg SignedConfig) (*HMAC, error) {
	return NewHMAC(HMACConfig{
		Secrets: cfg.Secrets, Header: "Stripe-Signature", Field: "v1", TimestampField: "t",
		Signed: "{timestamp}.{body}", Tolerance: cfg.Tolerance,
	})
}

// NewGitHub returns a verifier of GitHub's signatures: X-Hub-Signature-256 is over the body alone
// (https://docs.github.com/webhooks, "Validating webhook deliveries"). The older X-Hub-Signature,
// with SHA-1, is not looked at. There is no time stamp.
func NewGitHub(cfg SignedConfig) (*HMAC, error) {
	return NewHMAC(HMACConfig{
		Secrets: cfg.Secrets, Header: "X-Hub-Signature-256", Prefix: "sha256=",
	})
}

// NewShopify returns a verifier of Shopify's signatures: X-Shopify-Hmac-Sha256 is over the body
// alone, in base64 (https://shopify.dev/docs/apps/build/webhooks/subscribe/https). A secret is the
// client secret of the app. There is no time stamp that is signed.
func NewShopify(cfg SignedConfig) (*HMAC, error) {
	return NewHMAC(HMACConfig{
		Secrets: cfg.Secrets, Header: "X-Shopify-Hmac-Sha256", Encoding: "base64",
	})
}

// NewSlack returns a verifier of Slack's signatures: X-Slack-Signature is over the version, the
// time stamp in X-Slack-Request-Timestamp, and the body
// (https://docs.slack.dev/authentication/verifying-requests-from-slack). A secret is the signing
// secret of the app.
func NewSlack(cfg SignedConfig) (*HMAC, error) {
	return NewHMAC(HMACConfig{
		Secrets: cfg.Secrets, Header: "X-Slack-Signature", Prefix: "v0=",
		TimestampHeader: "X-Slack-Request-Timestamp", Signed: "v0:{timestamp}:{body}",
		Tolerance: cfg.Tolerance,
	})
}

// StandardConfig configures the verifier of Standard Webhooks.
type StandardConfig struct {
	// Secrets of which any may have signed: base64, with or without whsec_ before it.
	Secrets []string
	// Tolerance of the time stamp, in both directions. Default DefaultTolerance.
	Tolerance time.Duration
	// HeaderPrefix stands before -id, -timestamp and -signature: "svix" for senders that use
	// Svix's own names. Default "webhook".
	HeaderPrefix string
}

// minStandardSecret is the shortest secret, in bytes, that the specification allows.
const minStandardSecret = 24

// NewStandard returns a verifier of Standard Webhooks' symmetric signatures (v1): over the id, the
// time stamp and the body (https://github.com/standard-webhooks/standard-webhooks, specification,
// "Signature scheme"). Asymmetric ones (v1a) are passed over.
func NewStandard(cfg StandardConfig) (*HMAC, error) {
	prefix := cfg.HeaderPrefix
	if prefix == "" {
		prefix = "webhook"
	}
	var secrets []string
	for _, s := range cfg.Secrets {
		if strings.HasPrefix(s, "whpk_") || strings.HasPrefix(s, "whsk_") {
			return nil, errors.New("a secret is an asymmetric key (whpk_, whsk_); only symmetric" +
				" ones (whsec_) can be used")
		}
		secrets = append(secrets, strings.TrimPrefix(s, "whsec_"))
	}
	return newHMAC(HMACConfig{
		Secrets: secrets, SecretEncoding: "base64", Header: prefix + "-signature",
		Encoding: "base64", Prefix: "v1,", Separator: " ",
		TimestampHeader: prefix + "-timestamp", Tolerance: cfg.Tolerance,
		Signed: "{header:" + prefix + "-id}.{timestamp}.{body}",
	}, minStandardSecret)
}
