package webhook

import (
	"strings"
	"testing"
	"time"
)

// Keys that openssl made for this test, and a signature that it made with
// printf 'ID|TIME|WEBHOOK|838965618' | openssl dgst -sha256 -sign key.pem | base64
// The number is the CRC-32 of the body.
const (
	payPalCertificate = `-----BEGIN CERTIFICATE-----
MIIDNzCCAh+gAwIBAgIUZd23mCZ3zYa0y8tBcE/TjeEOMXUwDQYJKoZIhvcNAQEL
BQAwKzEpMCcGA1UEAwwgbWVzc2FnZXZlcmlmaWNhdGlvbmNlcnRzLmV4YW1wbGUw
HhcNMjYxMTMwMTczNzI1WhcNNDYxMTI1MTczNzI1WjArMSkwJwYDVQQDDCBtZXNz
YWdldmVyaWZpY2F0aW9uY2VydHMuZXhhbXBsZTCCASIwDQYJKoZIhvcNAQEBBQAD
ggEPADCCAQoCggEBAM0p4wsHGqn4O2c6uDfVOKVkSAvj2dD26u+gjFawSQp3pz2F
KBrQa5RCagwWIIKgrRUPzai0TuRwuwOJ/89XDHitwJsOz8JvKdxvdB3fH5qRo+fR
HZRM4bIwnBCGczTXR7kTlIgtwIKus//2nDJe66Eapac8tHQe9XJJryGjAgo55GgK
mdlGOChu3o7ig8u+jHHW/jTkF6G/0Cuy8TDqLA460V9lAB+I4YW3bx1WvI/OJQQ3
2P05Ys4HJYvjeQQMk2Ixs5fWnhxn1o9oSLioB3ngGhEkn4ybaotj3UQ2voCddNo3
iCCYcASbjTQyXVxCg0j2152vWUVxktU0U9x1lXMCAwEAAaNTMFEwHQYDVR0OBBYE
FP34AMPwNFRKku/TAlUw37MkdMgGMB8GA1UdIwQYMBaAFP34AMPwNFRKku/TAlUw
37MkdMgGMA8GA1UdEwEB/wQFMAMBAf8wDQYJKoZIhvcNAQELBQADggEBAJ+943Yb
uhD7nNOdpOwwwcx7WzDh8tRArKJVJbQYIeXrEetVOWOcf8SL7c8A9irw73/JRELY
qRcFmgL5S05FRBlQZJIifGWYtL31KIATrU2CjJxTIhM0VZj3u1yanLbDmb6yoBnG
+HM0GT4FINAJqhhnzBRwvykt4rMFAwE8aqVbwjAA2TkaWObCwXG77IL3Jr9hKd4q
cJ4f+5INsuahJt1J/jnfame685r3WK/0LlFPG0D9riJtHzCVzAjbULBkvyfOdwPl
jzYKcUIr7dzbk2y/M5IGgJx6/XlzY47WRFYBK5ID5W25f58dUUpOjaKBtb39wXkX
XVo6L3EKeBsyZUM=
-----END CERTIFICATE-----`
	shortKey = `-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCp2JMUj5XkpzeF5gt0YGwK1rm/
XQ8KBH6EjxbncqX7WJfpmNcVEzGnmtaSDL0SdzI6t7pqpfDNM47y2P8C9SWvA7ds
wQ8hqBjX7/c/YWqDuI8ByPMEItS/7nM9X+ACUdFjpShvRc+qwxvWlJGzuMSbRRpT
csqooNg5RYYCjEQgiwIDAQAB
-----END PUBLIC KEY-----`
	otherKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeF1aWJGOP3Xkm5mJy3ULgYksaKMN
eWBc66h0qGtzLrGY33oTlrpLkZWdjvGKkHUDDbjHpiMzfXumiCNuNMr9vw==
-----END PUBLIC KEY-----`
	payPalSignature = "eHXTVOifRgYDGKlLpZ4HYcsWNLGT5EV+EpY1ePp5Ka+yhkN1aruKNTEQC766cTCR" +
		"XEqnleMDBZH/0QoIyW7VM7S0ZcKN3Xy6gHmq4AuIFHW5X7ZxvYmkgKRcO8JGe0Li" +
		"CchARYlBjhanCcNo1lcG8+VXy8iSx1+Rmv3x8HVj/CoPofz4z+8WD4ydwqaph/83" +
		"unbUgBy385dIjlz9zdGz5T0/TOkCGljRjlFYHGltFXWC4HQL5M8nypvF9oebPaO8" +
		"0o0mtjGWXnAIFap50mH67y0E2OGRsqDu90c+GzuEOF2PEhwqI7Ca6oe+pOdASljz" +
		"m7dDyDqm+5Rm1dOomNe5pg=="
)

func payPalMessage() *Request {
	return request(time.Date(2016, 2, 18, 20, 1, 36, 0, time.UTC), `{"id":"WH-1"}`,
		"PAYPAL-TRANSMISSION-ID", "69cd13f0-d67a-11e5-baa3-778b53f4ae55",
		"PAYPAL-TRANSMISSION-TIME", "2016-02-18T20:01:35Z", "PAYPAL-AUTH-ALGO", "SHA256withRSA",
		"PAYPAL-CERT-URL", "https://example.org/cert", "PAYPAL-TRANSMISSION-SIG", payPalSignature)
}

func TestPayPal_TheSignatureIsThatOfACertificate(t *testing.T) {
	v := must(NewPayPal(PayPalConfig{WebhookID: "1JE4291016473214C",
		Certificates: []string{payPalCertificate}}))
	other := must(NewPayPal(PayPalConfig{WebhookID: "another",
		Certificates: []string{payPalCertificate}}))
	wantKind(t, "right", v.Verify(payPalMessage()), 0)
	wantKind(t, "of another webhook", other.Verify(payPalMessage()), Mismatch)
	set := func(name, value string) func(*Request) {
		return func(r *Request) { r.Header.Set(name, value) }
	}
	days := func(n int) func(*Request) {
		return func(r *Request) { r.Now = r.Now.AddDate(0, 0, n) }
	}
	for name, tt := range map[string]struct {
		change func(*Request)
		want   Kind
	}{
		"three days later":  {days(3), 0},
		"five days later":   {days(5), Expired},
		"five days earlier": {days(-5), Expired},
		"another body":      {func(r *Request) { r.Raw = []byte(`{"id":"WH-2"}`) }, Mismatch},
		"another id":        {set("Paypal-Transmission-Id", "x"), Mismatch},
		"another time":      {set("Paypal-Transmission-Time", "2016-02-18T20:01:36Z"), Mismatch},
		"no time":           {set("Paypal-Transmission-Time", "soon"), Malformed},
		"no id":             {func(r *Request) { r.Header.Del("Paypal-Transmission-Id") }, Missing},
		"another algorithm": {set("Paypal-Auth-Algo", "SHA1withRSA"), Malformed},
		"no algorithm":      {func(r *Request) { r.Header.Del("Paypal-Auth-Algo") }, 0},
		"no signature": {func(r *Request) {
			r.Header.Del("Paypal-Transmission-Sig")
		}, Missing},
		"two": {func(r *Request) {
			r.Header.Add("Paypal-Transmission-Sig", payPalSignature)
		}, Doubled},
		"cut":       {set("Paypal-Transmission-Sig", payPalSignature[:100]), Malformed},
		"no base64": {set("Paypal-Transmission-Sig", "!"+payPalSignature[1:]), Malformed},
		"another": {set("Paypal-Transmission-Sig",
			strings.Repeat("A", 340)+payPalSignature[340:]), Mismatch},
	} {
		r := payPalMessage()
		tt.change(r)
		wantKind(t, name, v.Verify(r), tt.want)
	}
}

func TestPayPal_RefusesWhatIsNoKeyForIt(t *testing.T) {
	for want, certificates := range map[string][]string{
		"no certificate is given": {}, "is no PEM text": {"MIIC"},
		"needs at least 2048": {shortKey},
		"is not one for RSA":  {payPalCertificate + "\n" + otherKey},
		"can't be read":       {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
		"holds a PRIVATE KEY": {strings.ReplaceAll(otherKey, "PUBLIC", "PRIVATE")},
	} {
		_, err := NewPayPal(PayPalConfig{WebhookID: "1", Certificates: certificates})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := NewPayPal(PayPalConfig{Certificates: []string{payPalCertificate}}); err == nil {
		t.Error("no id was accepted")
	}
}
